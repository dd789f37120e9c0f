from __future__ import annotations

from pathlib import Path
from typing import Any

import pytensor
import pytest

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.artifact.start_up.executables import Executables


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that leaves JAX's own one, which is the whole process's, as it is."""
    monkeypatch.setattr(Executables, "use", lambda self: None)
    return tmp_path / "cache"


@pytest.fixture
def build(folder: Path) -> Any:
    """Builds functions with the cache."""

    def build(inputs: Any, outputs: Any, *, options: Any = None, **more: Any) -> Any:
        mode = JAXLinker(cache_dir=folder, **(options or {}))
        return pytensor.function(inputs, outputs, mode=mode, **more)

    return build
