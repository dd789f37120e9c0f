"""The defects of other packages: the page says which versions show them, and no longer."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.docs.upstream import ROOT, Defect, defects, installed, outputs

DEFECTS = defects()
STACKS = {
    "PyTensor": {"3.0.7", "3.3.7"},
    "JAX": {"0.10.2", "0.12.0"},
    "SciPy": {"1.17.1", "1.18.1"},
    "PyMC": {"6.4.0"},
}


@cache
def printed() -> dict[str, str]:
    """What each program prints that can be run here."""
    here = [each for each in DEFECTS if installed(each.package)]
    together = [each for each in here if not each.apart]
    found = dict(
        zip(
            [each.title for each in together],
            outputs([each.program for each in together]),
            strict=True,
        )
    )
    for each in here:
        if each.apart:
            [found[each.title]] = outputs([each.program])
    return found


def is_known(defect: Defect, version: str) -> bool:
    """Return False for a version that is older than all that the page speaks of."""
    parts = [tuple(map(int, each.split("."))) for each in defect.versions]
    return tuple(map(int, re.findall(r"[0-9]+", version))) >= min(parts)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.title)
def test_the_page_is_up_to_date(defect: Defect) -> None:
    version = installed(defect.package)
    if version is None:
        pytest.skip(f"not installed: {defect.package}")
    if not is_known(defect, version):
        pytest.skip(f"older than the versions of the page: {defect.package} {version}")
    problem = defect.verdict(version, printed()[defect.title])
    assert problem is None, problem


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.title)
def test_an_entry_is_whole(defect: Defect) -> None:
    assert {"Shown with", "Here", "Reported"} <= {*defect.lines}
    assert {*defect.lines} <= {"Shown with", "Mended in", "Here", "Reported"}
    assert {*defect.versions} <= STACKS[defect.package]
    assert defect.found != defect.expected
    for path in re.findall(r"`([a-z_/]+\.(?:py|md))`", defect.lines["Here"]):
        assert (ROOT / path).exists(), path


def test_titles_differ() -> None:
    assert len({each.title for each in DEFECTS}) == len(DEFECTS) >= 20


class TestTheVerdict:
    """It fails both ways."""

    SECTION = (
        "a title\n\n```python\nprint(1)\n```\n\nFound:\n\n```text\n1\n```\n\n"
        "Expected:\n\n```text\n2\n```\n\n- Shown with: JAX 0.10.2, 0.12.0\n- Here: `a.py`\n"
    )
    OPEN = Defect.of(SECTION)
    MENDED = Defect.of(SECTION + "- Mended in: JAX 0.13\n")

    @pytest.mark.parametrize(
        ("defect", "version", "output", "problem"),
        [
            (OPEN, "0.10.2", "1", None),
            (OPEN, "0.14.0", "1", None),
            (OPEN, "0.14.0", "2", "no longer shown with JAX 0.14.0: the workaround can go: `a.py`"),
            (OPEN, "0.12.0.1", "3", "with JAX 0.12.0.1 the program prints neither of both:\n3"),
            (MENDED, "0.12.0.1", "1", None),
            (MENDED, "0.13", "2", None),
            (MENDED, "0.13.1", "2", None),
            (MENDED, "0.13.1", "1", "shown with JAX 0.13.1 again"),
            (MENDED, "0.12.0.1", "2", "no longer shown with JAX 0.12.0.1"),
        ],
    )
    def test_it(self, defect: Defect, version: str, output: str, problem: str | None) -> None:
        found = defect.verdict(version, output)
        assert (found is None) == (problem is None)
        assert (found or "").startswith(problem or "")

    def test_outputs(self) -> None:
        programs = ["print('a'); print('b')", "raise KeyError('a\\nb')", "import os; os.abort()"]
        assert outputs(programs[:2]) == ["a\nb", r"KeyError: 'a\nb'"]
        assert outputs(programs[2:]) == ["SIGABRT"]
        with pytest.raises(AssertionError):
            outputs(programs)
