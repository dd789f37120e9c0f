"""One name for one thing: no two classes, functions or modules of the package share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pytensor_jaxlink"


def repeated(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1}


def test_classes() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert len(places) > 100
    assert not repeated(places)


def test_functions() -> None:
    """Those that modules offer to each other; a name with an underscore belongs to its module."""
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert len(places) > 300
    assert not repeated(places)


def test_modules() -> None:
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        # A package has the name of its folder; `__main__` is Python's name.
        named = path.parent if path.name == "__init__.py" else path.with_suffix("")
        if named.name != "__main__":
            places[named.name].append(str(named.relative_to(PACKAGE.parent)))
    assert len(places) > 100
    assert not repeated(places)
