"""Run every PyTensor graph on JAX: maximal JIT regions, explained graph breaks.

With this package imported PyTensor has the mode ``"JAXSELECTIVE"`` and the linker
``"jaxselective"``.  Names are imported when they are first used, so that `load` needs neither
PyTensor nor the compiler.
"""

import contextlib as _contextlib
import os as _os
import typing as _typing
from importlib import import_module as _import_module
from pathlib import Path as _Path

from pytensor_jaxlink.catalogue import Code as _Code
from pytensor_jaxlink.errors import ArtifactError as ArtifactError
from pytensor_jaxlink.errors import BrokenShapeError as BrokenShapeError
from pytensor_jaxlink.errors import CheckFailedError as CheckFailedError
from pytensor_jaxlink.errors import DonatedArgumentError as DonatedArgumentError
from pytensor_jaxlink.errors import ForkedProcessError as ForkedProcessError
from pytensor_jaxlink.errors import JAXLinkError as JAXLinkError
from pytensor_jaxlink.errors import JAXLinkWarning as JAXLinkWarning
from pytensor_jaxlink.errors import NotDifferentiableError as NotDifferentiableError
from pytensor_jaxlink.errors import NotJittableError as NotJittableError
from pytensor_jaxlink.errors import NotSavedError as NotSavedError
from pytensor_jaxlink.errors import RecompileLimitError as RecompileLimitError
from pytensor_jaxlink.errors import UntranspilableOpError as UntranspilableOpError
from pytensor_jaxlink.registration import when_imported as _when_imported

if _typing.TYPE_CHECKING:
    from pytensor_jaxlink.artifact import inspect as inspect
    from pytensor_jaxlink.artifact import load as load
    from pytensor_jaxlink.artifact import save as save
    from pytensor_jaxlink.link import Explanation as Explanation
    from pytensor_jaxlink.link import JAXFunction as JAXFunction
    from pytensor_jaxlink.link import JAXLinker as JAXLinker
    from pytensor_jaxlink.link import explain as explain
    from pytensor_jaxlink.link import jaxify as jaxify
    from pytensor_jaxlink.ops import static_inputs as static_inputs
    from pytensor_jaxlink.runtime import Profile as Profile
    from pytensor_jaxlink.runtime import profile as profile

    __version__: str

_LATER = {
    "Explanation": "link",
    "JAXFunction": "link",
    "JAXLinker": "link",
    "Profile": "runtime",
    "explain": "link",
    "inspect": "artifact",
    "jaxify": "link",
    "load": "artifact",
    "profile": "runtime",
    "save": "artifact",
    "static_inputs": "ops",
}


def __getattr__(name: str) -> _typing.Any:
    if name == "__version__":
        from pytensor_jaxlink.versions import own_version  # slow to import

        found = own_version()
    elif name in _LATER:
        found = getattr(_import_module(f"{__name__}.{_LATER[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "__version__"})


def _register() -> None:
    from pytensor_jaxlink.link import register_with_pytensor

    register_with_pytensor(_find_entry)


def _suit_pymc() -> None:
    from pytensor_jaxlink.compat import start_processes_as_for_jax
    from pytensor_jaxlink.link import JAXLinker
    from pytensor_jaxlink.link.step_methods import give_numpy_to_samplers
    from pytensor_jaxlink.lowering.splines import register_splines

    start_processes_as_for_jax(JAXLinker)
    give_numpy_to_samplers()
    register_splines()


def _find_entry(*graph: _typing.Any) -> _typing.Any:
    from pytensor_jaxlink.artifact.start_up import entry_of

    return entry_of(*graph)


def _settings() -> _typing.Iterator[str]:
    """The settings that PyTensor reads when it is imported."""
    yield _os.environ.get("PYTENSOR_FLAGS", "")
    for path in _os.environ.get("PYTENSORRC", "~/.pytensorrc").split(_os.pathsep):
        with _contextlib.suppress(OSError):
            yield _Path(path).expanduser().read_text()


def _explain(error: Exception) -> None:
    if any("JAXSELECTIVE" in setting for setting in _settings()):
        text = (
            "PyTensor reads PYTENSOR_FLAGS and .pytensorrc before pytensor_jaxlink can register "
            'the mode.  Set it in the program: pytensor.config.mode = "JAXSELECTIVE"'
        )
        error.add_note(_Code.MODE_TOO_LATE.mark(text))


_when_imported("pytensor", _register, own=__name__, explain=_explain)
# Not by `_register`: PyMC imports PyTensor, so PyMC may be half imported then.
_when_imported("pymc", _suit_pymc, own=__name__)
