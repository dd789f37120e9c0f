"""Docstrings begin with the noun or the verb."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pytensor_jaxlink"


def test_no_docstring_begins_with_a_question() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if re.match(r"(What|Whether|Whose)\b", text):
                    found.append(f"{path.relative_to(PACKAGE)}: {text.splitlines()[0]}")
    assert not found, "\n".join(found)
