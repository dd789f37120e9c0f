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
from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink import ArtifactError, load, save
from pytensor_jaxlink.lowering.size_arithmetic import describe_size
from pytensor_jaxlink.size_functions import takes
from tests.artifact.damage import members_of, relisted
from tests.corpus.graphs import CORPUS
from tests.helpers import as_list, black_box, sort_down


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


def sorted_down() -> tuple[Any, tuple[Any, ...]]:
    x = pt.dvector("x")
    return pytensor.function([x], black_box(sort_down)(x) * 2, mode="JAXSELECTIVE"), (np.ones(3),)


def larger() -> tuple[Any, tuple[Any, ...]]:
    x, n = pt.dvector("x"), pt.lscalar("n")
    outputs = x[: pt.switch(n > 2, n, 2)].sum()
    return pytensor.function([x, n], outputs, mode="JAXSELECTIVE"), (np.ones(4), 2)


@pytest.mark.parametrize("make", [size, larger, sorted_down, host_loop])
@pytest.mark.parametrize("change", [lambda a: [], lambda a: [*a, a[0]], lambda a: a[:-1]])
@pytest.mark.parametrize("which", ["arguments", "results"])
def test_host_steps_of_other_counts(make: Any, change: Any, which: str, tmp_path: Path) -> None:
    path, (function, arguments) = tmp_path / "f", make()
    function(*arguments)
    save(function, path, graph=False)
    members = dict(members_of(path.read_bytes()))
    document = json.loads(members["compiled.json"])
    [(place, kind), *_] = [
        (place, kind)
        for place, step in enumerate(document[""]["plan"]["steps"])
        for kind in step
        if kind in ("HostStep", "HostLoop")
    ]
    parts = document[""]["plan"]["steps"][place][kind]
    parts[which] = change(parts[which])
    members["compiled.json"] = json.dumps(document).encode()
    path.write_bytes(relisted(list(members.items())))
    with pytest.raises(ArtifactError):
        load(path, allow=("tests",))


@pytest.mark.filterwarnings("ignore")
def test_arithmetic_takes_the_inputs_of_its_nodes() -> None:
    n, v = pt.lscalar("n"), pt.lvector("v")
    more = [pt.join(0, v, [n], v).sum() + v[n - 1] + v[n : 2 * n : 2].sum() + pt.stack([n, n])[0]]
    found = set()
    for outputs in (more, *(as_list(graph()) for _, graph in CORPUS.values())):
        for node in FunctionGraph(outputs=outputs, clone=True).apply_nodes:
            if (described := describe_size(node)) is not None:
                found.add(described[0])
                assert takes(described, len(node.inputs)), node
    kinds = {"shape", "elementwise", "vector", "same", "take", "join", "reduce", "dim_shuffle"}
    assert found == kinds
