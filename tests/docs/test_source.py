"""Habits of the source that no linter looks at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

PACKAGE = Path(__file__).resolve().parents[2] / "pytensor_jaxlink"
MOST_LINES_WITH_ANY = 750
"""``grep -rw Any pytensor_jaxlink --include=*.py | wc -l``"""

LONGEST_MODULE, MEDIAN_FUNCTION = 392, 6
"""Lines."""

ASKS = {"startswith", "endswith", "find", "index", "count"}


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), path.read_text()


def is_text_of(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Name("str" | "repr"), args=[ast.Name(found)]):
            return found == name
        case _:
            return False


def decides_by_text(node: ast.AST, name: str) -> bool:
    """Does code compare the text of an exception, or ask how it begins?"""
    match node:
        case ast.Compare():
            asked = ast.walk(node)
        case ast.Call(func=ast.Attribute(attr=attribute)) if attribute in ASKS:
            asked = ast.walk(node.func)
        case _:
            return False
    return any(is_text_of(part, name) for part in asked)


def handlers(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The code that has an exception: handlers, and functions with an argument named so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node, node.name
        if isinstance(node, ast.FunctionDef):
            for argument in node.args.args:
                if argument.arg in ("error", "raised", "exception"):
                    yield node, argument.arg


def decisions(text: str) -> list[int]:
    found = [
        node.lineno
        for code, name in handlers(ast.parse(text))
        for node in ast.walk(code)
        if isinstance(node, ast.expr) and decides_by_text(node, name)
    ]
    return sorted(set(found))


def test_what_a_decision_is() -> None:
    code = """
try:
    pass
except ValueError as error:
    if "memory" in str(error) or str(error).startswith("No"):
        print(str(error))

def explain(error):
    return "mode" in str(error)
"""
    assert decisions(code) == [5, 9]


def test_nothing_is_decided_by_the_text_of_an_exception() -> None:
    """By its type, by an attribute, or by asking before; where JAX gives nothing else: `compat`."""
    found = {path: decisions(text) for path, text in modules() if path != "compat.py"}
    assert not {path: lines for path, lines in found.items() if lines}


def test_any_stands_where_pytensor_forces_it() -> None:
    found = [
        line for _, text in modules() for line in text.splitlines() if re.search(r"\bAny\b", line)
    ]
    assert len(found) < MOST_LINES_WITH_ANY


def test_modules_and_functions_are_short() -> None:
    """As short as when the project had half of its code: a module is read in one go."""
    long = {path: n for path, text in modules() if (n := text.count("\n")) > LONGEST_MODULE}
    assert not long
    nodes = [node for _, text in modules() for node in ast.walk(ast.parse(text))]
    lengths = [(n.end_lineno or 0) - n.lineno + 1 for n in nodes if isinstance(n, ast.FunctionDef)]
    assert median(lengths) <= MEDIAN_FUNCTION
