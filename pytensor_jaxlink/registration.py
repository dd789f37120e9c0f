"""Registering with PyTensor when PyTensor is there, without importing it.

`import pytensor_jaxlink` must make the mode ``"JAXSELECTIVE"`` known, and loading a saved function
must not cost the import of PyTensor, nor need it.  So the registration waits for PyTensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(
    name: str,
    action: Callable[[], None],
    *,
    own: str,
    explain: Callable[[Exception], None] = lambda error: None,
) -> None:
    """Call ``action`` when a module has been imported: now, if it has been.

    Parameters
    ----------
    name
        The module.
    action
        What to do, once.
    own
        The package that ``action`` imports from.  Where a module of its own is what imports
        ``name``, the action waits until that module is complete.
    explain
        Called with the exception where the module cannot be imported.
    """
    if sys.modules.get(name) is not None:  # None: somebody keeps it from being imported
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action, own, explain))


class _Watch:
    """A finder that finds what the others find, and notes when modules have been executed."""

    def __init__(
        self,
        name: str,
        action: Callable[[], None],
        own: str,
        explain: Callable[[Exception], None],
    ) -> None:
        self.name, self._action, self._own, self._explain = name, action, f"{own}.", explain
        self._running = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that is watched; None for all others."""
        watched = name == self.name or name.startswith(self._own)
        if not watched or self not in sys.meta_path:
            return None
        # Those before it have found nothing; another watch behind it adds its own notes.
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return self._watched(spec)
        return None

    def _watched(self, spec: ModuleSpec) -> ModuleSpec:
        loader: Any = spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                self._running += 1
                try:
                    execute(module)
                except Exception as error:
                    self._explain(error)
                    raise
                finally:
                    self._running -= 1
                self._act()

            loader.exec_module = execute_and_act
        return spec

    def _act(self) -> None:
        complete = not self._running and sys.modules.get(self.name) is not None
        if complete and self in sys.meta_path:  # once, whoever asked for how many specs
            sys.meta_path.remove(self)
            self._action()
