"""Names of classes and functions, resolved within an allow-list only."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType

from pytensor_jaxlink.artifact.known import FUNCTIONS, OPS, OTHERS
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy

# Host steps may be loops in the forms that the linker gives them.
_OUR_OPS = "pytensor_jaxlink.ops."


@dataclass(frozen=True)
class Override:
    """A function that gives the gradient of an Op, by its name; None for one without a name."""

    name: str | None


def name_of(kind: object, what: str) -> str:
    """``"module:qualified.name"`` of a class or function.

    Raises
    ------
    ArtifactError
        If no such name leads to it: it was defined inside a function, or has another name there.
    """
    module, name = getattr(kind, "__module__", None), getattr(kind, "__qualname__", None)
    try:
        found = import_module(str(module))
        for part in str(name).split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if found is not kind and getattr(found, "fn", found) is not kind and not _wraps(found, kind):
        raise ArtifactError(
            f"{what}: {kind!r} cannot be imported as {module}.{name}, so it cannot be found again "
            f"when the file is loaded. {Remedy.TOP_LEVEL.text()}.",
            code=Code.NOT_IMPORTABLE,
        )
    return f"{module}:{name}"


def _wraps(found: object, function: object) -> bool:
    """Return True if an Op has the name of the function that it was made from (`as_op`)."""
    return any(value is function for value in getattr(found, "__dict__", {}).values())


class Names:
    """The objects that the names of a file may lead to.

    Beside the known names of PyTensor all are open in the modules of ``allow`` and their
    submodules.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = tuple(allow)

    def of_class(self, name: str, kinds: tuple[type, ...]) -> type:
        """The class with a name, which must derive from one of ``kinds``."""
        module, path = self._split(name)
        if module == "builtins" and Exception in kinds:
            found = getattr(builtins, path, None)
        else:
            known = name in OPS or name in OTHERS or module.startswith(_OUR_OPS)
            self._check(name, known=known)
            found = self._find(module, path)
        if not isinstance(found, type) or not issubclass(found, kinds):
            raise ArtifactError(
                f"{name!r} does not name a {' or '.join(kind.__name__ for kind in kinds)}",
                code=Code.DAMAGED,
            )
        return found

    def of_function(self, name: str) -> FunctionType:
        """The function with a name, or the Op that was made from it and has its name."""
        module, path = self._split(name)
        self._check(name, known=name in FUNCTIONS)
        found = self._find(module, path)
        if isinstance(found, FunctionType):
            return found
        made_from = [v for v in getattr(found, "__dict__", {}).values() if _is_named(v, path)]
        if not made_from:
            raise ArtifactError(f"{name!r} does not name a function", code=Code.DAMAGED)
        return made_from[0]

    def of_override(self, name: str | None) -> Override | FunctionType:
        """The function that gives a gradient, or its name where that may not be imported.

        Only who takes the gradient calls it, on variables.
        """
        if name is None:
            return Override(None)
        module, path = self._split(name)
        if not self._allowed(module) and not module.startswith("pytensor.tensor."):
            return Override(name)
        found = self._find(module, path)
        if not isinstance(found, FunctionType):
            raise ArtifactError(f"{name!r} does not name a function", code=Code.DAMAGED)
        return found

    def allows(self, name: object) -> bool:
        """Return True if a name leads to a module that the user allows."""
        return self._allowed(self._split(name)[0])

    @staticmethod
    def _split(name: object) -> tuple[str, str]:
        if not isinstance(name, str) or name.count(":") != 1:
            raise ArtifactError(
                f"{name!r} is not the name of something in a module", code=Code.DAMAGED
            )
        module, path = name.split(":")
        return module, path

    def _allowed(self, module: str) -> bool:
        return any(f"{module}.".startswith(f"{each}.") for each in self._allow)

    def _check(self, name: str, *, known: bool) -> None:
        """Raise unless a name may be looked for."""
        module = name.partition(":")[0]
        if known or self._allowed(module):
            return
        package = module.partition(".")[0]
        raise ArtifactError(
            f"the file refers to {name!r}. Only the Ops and Types of PyTensor that this library "
            "knows are open to files, and modules that you allow. "
            f"{Remedy.ALLOW.text(module=module if package == 'pytensor' else package)}.",
            code=Code.NOT_ALLOWED,
        )

    def _find(self, module: str, path: str) -> object:
        try:
            found = import_module(module)
            for part in path.split("."):
                found = found.__dict__[part]
            if isinstance(found, staticmethod):
                found = found.__func__
        except ImportError as error:
            raise ArtifactError(
                f"the file refers to {module}:{path}, and the import fails: {error}",
                code=Code.OTHER_VERSION,
            ) from error
        except (AttributeError, KeyError, ValueError) as error:
            raise ArtifactError(
                f"there is no {path} in {module} here: the file was saved with another version "
                "of it",
                code=Code.OTHER_VERSION,
            ) from error
        # What a module has imported from elsewhere is not its own to give.
        if isinstance(found, type | FunctionType) and found.__module__ != module:
            raise ArtifactError(f"{path} is not defined in {module}", code=Code.DAMAGED)
        return found


class EveryName(Names):
    """All names: for what was written in this process."""

    def _allowed(self, module: str) -> bool:
        return True


def _is_named(value: object, path: str) -> bool:
    return isinstance(value, FunctionType) and value.__qualname__ == path
