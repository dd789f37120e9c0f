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
        (no_leaves, "3 is no tuple[tuple[int | str, ...], str]"),
        (fewer_outputs, "the plan gives 1 values, and the function 2"),
        (overwritten, "the plan gives 2 values, and the function 3"),
        (no_positions, "[] is no <class 'int'>"),
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


def with_value(document: Any, place: tuple[Any, ...], value: object) -> Any:
    """The document with another value at a place."""
    if not place:
        return value
    changed = document.copy()
    changed[place[0]] = with_value(changed[place[0]], place[1:], value)
    return changed


def host_loop() -> tuple[Any, tuple[Any, ...]]:
    x = pt.dvector("x")
    steps = pytensor.scan(
        lambda a: pt.unique(a)[:2] + x,
        outputs_info=[x],
        n_steps=3,
        return_updates=False,
    )
    return pytensor.function([x], steps, mode="JAXSELECTIVE"), (np.arange(2.0),)


def constant() -> tuple[Any, tuple[Any, ...]]:
    x = pt.dvector("x")
    return pytensor.function([x], x + np.arange(900.0), mode="JAXSELECTIVE"), (np.zeros(900),)


def size() -> tuple[Any, tuple[Any, ...]]:
    x, n = pt.dvector("x"), pt.lscalar("n")
    return pytensor.function([x, n], x[: n // 2].sum(), mode="JAXSELECTIVE"), (np.ones(4), 2)


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (constant, ("constants", 0, 1)),
        (host_loop, ("functions", 1, "parts", 0, "functions", 0)),
        (host_loop, ("plan", "steps", 1, "HostLoop", "arguments")),
        (host_loop, ("plan", "steps", 1, "HostLoop", "layout", "taps")),
        (host_loop, ("plan", "steps", 1, "HostLoop", "layout", "taps", 0, 0)),
        (host_loop, ("plan", "steps", 1, "HostLoop", "inner", 0, "outputs")),
        (size, ("functions", 0)),
        (size, ("functions", 0, "size", 3)),
    ],
)
@pytest.mark.parametrize("value", [None, 7, "x", [None]])
def test_values_of_the_wrong_kind(
    make: Any, place: tuple[Any, ...], value: object, tmp_path: Path
) -> None:
    path, (function, arguments) = tmp_path / "f", make()
    function(*arguments)
    save(function, path, graph=False)
    members = dict(members_of(path.read_bytes()))
    document = json.loads(members["compiled.json"])
    members["compiled.json"] = json.dumps(with_value(document, ("", *place), value)).encode()
    path.write_bytes(relisted(list(members.items())))
    with pytest.raises(ArtifactError):
        load(path)
