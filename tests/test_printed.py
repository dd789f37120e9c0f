"""What the documentation shows is what is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from tests.helpers import black_box, sort_down

ROOT = Path(__file__).parents[1]


def test_readme(capsys: Any) -> None:
    text = (ROOT / "README.md").read_text()
    [code, printed] = re.findall(r"^```(?:python|text)\n(.*?)^```$", text, re.DOTALL | re.M)[:2]
    exec(compile(code, "/home/you/model.py", "exec"), {})
    assert capsys.readouterr().out == printed


def test_devices() -> None:
    x = pt.TensorType("float64", (800,))("x")
    f = pytensor.function([x], black_box(sort_down)(pt.exp(x)), mode="JAXSELECTIVE")
    f(np.ones(800))
    [line] = [line for line in str(f.explain()).splitlines() if "transfer" in line]
    assert f"`{line.strip()}`" in (ROOT / "docs" / "devices.md").read_text()
