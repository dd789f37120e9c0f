from __future__ import annotations

from pathlib import Path
from typing import Any

import pytensor
import pytest

from pytensor_jaxlink import JAXLinker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def build(folder: Path) -> Any:
    """Builds functions with the cache."""

    def build(inputs: Any, outputs: Any, *, options: Any = None, **more: Any) -> Any:
        mode = JAXLinker(cache_dir=folder, **(options or {}))
        return pytensor.function(inputs, outputs, mode=mode, **more)

    return build
