"""The list of long tests is one of tests, and leaves something of each folder."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.long import LIST, long_ones, seconds

ROOT = Path(__file__).resolve().parents[2]


def functions_of(path: Path) -> set[str]:
    """The names of the tests in a file, as pytest writes them."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return {name for name in found if name.split("::")[-1].startswith("test")}


def test_the_list() -> None:
    listed = LIST.read_text().split()
    assert listed == sorted(set(listed))
    for name in listed:
        path, _, function = name.partition("::")
        if path.startswith("tests/"):
            assert function in functions_of(ROOT / path), name


def test_each_folder_keeps_tests() -> None:
    listed = set(LIST.read_text().split())
    for folder in {path.parent for path in (ROOT / "tests").rglob("test_*.py")}:
        names = {
            f"{path.relative_to(ROOT)}::{name}"
            for path in folder.glob("test_*.py")
            for name in functions_of(path)
        }
        assert names - listed, folder


def test_the_choice() -> None:
    report = """
3.00s call     tests/a.py::test_one[x]
2.00s setup    tests/a.py::test_one[y]
1.00s call     tests/a.py::test_two
0.50s call     tests/b.py::Class::test_three
"""
    times = seconds([report, "4.00s call tests/a.py::test_two"])
    assert times == {
        "tests/a.py::test_one": 5,
        "tests/a.py::test_two": 4,
        "tests/b.py::Class::test_three": 0.5,
    }
    assert long_ones(times, 5) == ["tests/a.py::test_one"]
    assert long_ones(times, 10) == []
    assert len(long_ones(times, 0)) == 2  # one stays
