"""Each script of the gallery runs, and its page and images are there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(path.stem for path in GALLERY.glob("*.py") if "def build()" in path.read_text())
LARGEST = 60_000  # bytes of an image
MISSING = [name for name in ("pymc", "numba", "matplotlib") if find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"the extra `pymc` is not installed: {MISSING}")
@pytest.mark.filterwarnings("ignore")  # PyMC's packages warn about each other, and of few draws
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its quick form: few draws, and no NUMBA, which takes longest to compile."""
    from docs.gallery import __main__, example

    monkeypatch.setattr(example, "OTHERS", ("FAST_COMPILE", "JAX"))
    script = example.load(name)
    found = example.compare(script, turns=1)  # it compares the values
    assert found.timings["JAX"].refusal
    assert not found.timings["JAXSELECTIVE"].refusal
    assert found.explanation.graph_break_count == (name == "black_box_ode")
    __main__.finish(name, script, found, tmp_path, draws=10)
    page = (tmp_path / f"{name}.md").read_text()
    images = re.findall(r"\]\((images/.*?)\)", page)
    assert len(images) == 2
    assert all((tmp_path / image).stat().st_size < LARGEST for image in images)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_page(name: str) -> None:
    """It shows the script as it is, and small images that are there."""
    page, script = ((GALLERY / f"{name}.{kind}").read_text() for kind in ("md", "py"))
    [code] = re.findall(r"^```python\n(.*?)\n```", page, re.DOTALL | re.MULTILINE)
    assert code in script
    assert "def build()" in code
    images = re.findall(r"\]\((images/.*?)\)", page)
    assert len(images) == 2
    assert all((GALLERY / image).stat().st_size < LARGEST for image in images)


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"^\| \[.*?\]\((\w+)\.md\)", (GALLERY / "README.md").read_text(), re.M)
    assert sorted(listed) == SCRIPTS
    assert len(SCRIPTS) == 8
