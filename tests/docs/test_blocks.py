"""Every block of Python in README.md and docs/ runs.  The blocks of a page share their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_RUN = {("devices.md", 1): "needs two processes; tests/devices/two.py has them"}
NEEDS = ("pymc", "numpyro", "blackjax", "nutpie")  # the extra pymc
# A model of the page is to run, not to converge.
SHORT = {"draws": 20, "tune": 20, "chains": 2, "cores": 1, "progressbar": False}


def blocks(page: Path) -> list[tuple[int, str]]:
    """The line before each block, and its code."""
    text = page.read_text()
    return [(text.count("\n", 0, m.start(1)), m[1]) for m in BLOCK.finditer(text)]


@pytest.fixture
def config_of_jax() -> Iterator[None]:
    yield
    jax.config.update("jax_cpu_enable_async_dispatch", True)  # the default; it cannot be read


@pytest.mark.filterwarnings("ignore")  # PyMC's packages warn about each other, and of few draws
@pytest.mark.usefixtures("config_of_jax", "restored_cache")
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks(page)
    if any("import pymc" in code for _, code in found):
        missing = [name for name in NEEDS if find_spec(name) is None]
        if missing:
            pytest.skip(f"needs the extra pymc: {', '.join(missing)}")
        _shorten(monkeypatch)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    for number, (line, code) in enumerate(found):
        if (page.name, number) not in NOT_RUN:
            exec(compile("\n" * line + code, str(page), "exec"), names)


def _shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    import pymc

    monkeypatch.setattr(pymc, "sample", partial(pymc.sample, **SHORT))


def test_what_is_not_run_is_there() -> None:
    lengths = {page.name: len(blocks(page)) for page in PAGES}
    assert all(number < lengths[name] for name, number in NOT_RUN)
    assert sum(lengths.values()) > len(NOT_RUN)
