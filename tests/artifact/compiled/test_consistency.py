"""Documents that are whole, and do not fit each other, are refused when they are loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import ArtifactError, load, save
from tests.artifact.damage import members_of, relisted


def fewer_results(function: Any) -> None:
    function["functions"][0]["code"][0]["results"].pop()


def no_leaves(function: Any) -> None:
    function["functions"][0]["code"][0]["leaves"] = [3]


def fewer_outputs(function: Any) -> None:
    function["plan"]["outputs"].pop()


def overwritten(function: Any) -> None:
    function["ending"]["overwritten"] = [0]


def no_positions(function: Any) -> None:
    function["ending"]["copied"] = [[]]


def generators(function: Any) -> None:
    function["plan"]["generators"] = function["plan"]["inputs"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (fewer_results, "code of region 0 is for other values than the plan's"),
        (no_leaves, "code of region 0 is for arrays that are none"),
        (fewer_outputs, "the plan gives 1 values, and the function 2"),
        (overwritten, "the plan gives 2 values, and the function 3"),
        (no_positions, "int() argument must be"),
        (generators, "the plan takes no Vector(float64, shape=(?,)) where the function does"),
    ],
)
def test_documents(change: Callable[[Any], None], problem: str, tmp_path: Path) -> None:
    path, x = tmp_path / "f", pt.dvector("x")
    save(pytensor.function([x], [pt.exp(x).sum(), x + 1], mode="JAXSELECTIVE"), path, graph=False)
    assert load(path)(np.zeros(2))[0] == 2
    members = dict(members_of(path.read_bytes()))
    document = json.loads(members["compiled.json"])
    change(document[""])
    members["compiled.json"] = json.dumps(document).encode()
    path.write_bytes(relisted(list(members.items())))
    with pytest.raises(ArtifactError) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: it does not hold what a saved function holds (")
    assert problem in str(raised.value)
