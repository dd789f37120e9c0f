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


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Call ``action`` when a module has been imported: now, if it has been."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action))


class _Watch:
    """A finder that finds what the others find, and notes when the module has been executed."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name, self._action = name, action

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the module that is waited for; None for all others."""
        if name != self._name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                return self._watched(spec)
        return None

    def _watched(self, spec: ModuleSpec) -> ModuleSpec:
        loader: Any = spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:  # once, whoever asked for how many specs
                    sys.meta_path.remove(self)
                    self._action()

            loader.exec_module = execute_and_act
        return spec
