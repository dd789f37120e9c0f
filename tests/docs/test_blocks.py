"""Every block of Python in README.md, docs/ and .github/ runs, and prints what the page shows.

The blocks of a page share their names.  A block of text right after a block of Python is what that
block prints.  Tests that a block defines are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import pytensor
import pytest

from pytensor_jaxlink.lowering import domains, samplers

ROOT = Path(__file__).resolve().parents[2]
DEFECTS = ROOT / "docs" / "upstream.md"  # of other packages; `test_upstream` runs its programs
PAGES = [
    ROOT / "README.md",
    *sorted({*(ROOT / "docs").rglob("*.md")} - {DEFECTS}),
    *sorted((ROOT / ".github").glob("*.md")),
]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```)?", re.DOTALL | re.MULTILINE
)
NOT_RUN = {("devices.md", 1): "needs two processes; tests/devices/two.py has them"}
NEEDS = {
    "import pymc": ("pymc", "numpyro", "blackjax", "nutpie"),  # the extra pymc
    "import equinox": ("equinox",),  # the extra examples
}
# A model of the page is to run, not to converge.
SHORT = {"draws": 20, "tune": 20, "chains": 2, "cores": 1, "progressbar": False}


def blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """The line before each block, its code, and what the page says that it prints."""
    text = page.read_text()
    return [
        (text.count("\n", 0, found.start("code")), found["code"], found["shown"])
        for found in BLOCK.finditer(text)
    ]


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The configurations of JAX and PyTensor and our tables are as before after the test."""
    monkeypatch.setattr(samplers, "SAMPLERS", dict(samplers.SAMPLERS))
    monkeypatch.setattr(domains, "_DOMAINS", dict(domains._DOMAINS))
    mode = pytensor.config.mode
    yield
    pytensor.config.mode = mode
    jax.config.update("jax_cpu_enable_async_dispatch", True)  # the default; it cannot be read


@pytest.mark.filterwarnings("ignore")  # PyMC's packages warn about each other, and of few draws
@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks(page)
    for line, modules in NEEDS.items():
        if any(line in code for _, code, _ in found):
            missing = [name for name in modules if find_spec(name) is None]
            if missing:
                pytest.skip(f"not installed: {', '.join(missing)}")
    if any("import pymc" in code for _, code, _ in found):
        _shorten(monkeypatch)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    for number, (line, code, shown) in enumerate(found):
        if (page.name, number) not in NOT_RUN:
            printed = StringIO()
            with redirect_stdout(printed):
                exec(compile("\n" * line + code, str(page), "exec"), names)
            if shown is not None and not pytensor.__version__.startswith("3.0."):
                assert _without_places(printed.getvalue()) == _without_places(shown)
    for name in [name for name in names if name.startswith("test_")]:
        names[name]()


def _without_places(text: str) -> str:
    """The text without the files and lines in it, which are those of the reader."""
    return re.sub(r"^(\s+where: ).*$", r"\1", text, flags=re.MULTILINE)


def _shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    import pymc

    monkeypatch.setattr(pymc, "sample", partial(pymc.sample, **SHORT))


def test_what_is_not_run_is_there() -> None:
    lengths = {page.name: len(blocks(page)) for page in PAGES}
    assert all(number < lengths[name] for name, number in NOT_RUN)
    assert sum(lengths.values()) > len(NOT_RUN)
