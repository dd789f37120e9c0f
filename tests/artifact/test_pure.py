"""What `jaxify` made is saved with its trees, and loaded with the same signature."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import ArtifactError, JAXLinkWarning, inspect, jaxify, load, save
from pytensor_jaxlink.link import PureFunction
from tests.artifact.damage import members_of, relisted
from tests.helpers import assert_same_trees

LAYERS = ("compiled", "graph")
ROOT = Path(__file__).resolve().parents[2]
X = np.arange(3.0)


class Line(NamedTuple):
    """A named tuple that can be imported."""

    slope: Any
    start: Any


def line(**options: Any) -> Any:
    """A function of all kinds of trees, with a state."""
    x, slope, start = pt.dvector("x"), pt.dscalar("slope"), pt.dscalar()
    total = pytensor.shared(np.zeros(()), "total")
    y = slope * x + start
    outputs = {"y": (y, None), "both": [y.sum(), OrderedDict(z=x * 2)], "none": {}}
    arguments = [Line(slope, [start, None]), {"x": x, "empty": ()}, x]
    return jaxify(arguments, outputs, updates={total: total + x.sum()}, name="line", **options)


ARGUMENTS = (Line(2.0, [1.0, None]), {"x": X, "empty": ()}, X)


@pytest.mark.parametrize("prefer", LAYERS)
def test_trees_come_back(path: Path, prefer: Any) -> None:
    fn = line()
    save(fn, path)
    loaded = load(path, prefer=prefer)
    assert loaded.input_names == fn.input_names
    assert loaded.output_names == fn.output_names
    assert loaded.static_argnums == fn.static_argnums == ()
    assert loaded.donate_argnums == fn.donate_argnums == (3,)
    assert_same_trees(loaded.initial_state(), fn.initial_state())
    assert_same_trees(
        jax.jit(loaded)(*ARGUMENTS, *loaded.initial_state()),
        jax.jit(fn)(*ARGUMENTS, *fn.initial_state()),
    )
    assert_same_trees(
        jax.tree.map(jnp.asarray, loaded(*ARGUMENTS, *loaded.initial_state())),
        jax.tree.map(jnp.asarray, fn(*ARGUMENTS, *fn.initial_state())),
    )


@pytest.mark.parametrize("prefer", LAYERS)
def test_the_state_is_stored(path: Path, prefer: Any) -> None:
    save(line(), path)
    loaded = load(path, prefer=prefer)
    assert type(loaded) is PureFunction
    _, state = loaded(*ARGUMENTS, *loaded.initial_state())
    loaded.store(state)
    assert [float(value) for value in loaded.initial_state()] == [3.0]


@pytest.mark.parametrize("prefer", LAYERS)
def test_named_tuples(path: Path, prefer: Any) -> None:
    a, b = pt.dscalar("a"), pt.dscalar("b")
    save(jaxify([Line(a, b)], Line(a + b, (a, b))), path)
    found = load(path, prefer=prefer)(Line(1.0, 2.0))
    assert type(found).__name__ == "Line"
    assert found._fields == Line._fields
    assert not isinstance(found, Line)
    again = load(path, prefer=prefer)
    stand_in = type(found)(1.0, 2.0)
    assert type(again(stand_in)) is type(found)
    known = load(path, prefer=prefer, allow=("tests",))
    assert type(known(Line(1.0, 2.0))) is type(known(stand_in)) is Line
    with pytest.raises(ValueError, match=r"argument 0: expected a Line .* found a tuple of"):
        again((1.0, 2.0))


def test_no_name_of_a_file_is_imported(path: Path) -> None:
    a = pt.dscalar("a")
    save(jaxify([Line(a, a)], a), path)
    for name, fields, error in (
        ("os:system", ["slope", "start"], None),
        ("tests.artifact.damage:MARK", ["slope", "start"], "does not name a"),
        ("tests.artifact.test_pure:Line", ["a", "b"], "is not a named tuple of a, b"),
        ("x:a b", ["slope", "start"], "valid identifier"),
        ("x:Line", ["slope", "__import__('os')"], "valid identifier"),
        ("x:Line", ["_slope", "start"], "underscore"),
        ("x:Line", ["slope"], "argument"),
    ):
        content = path.read_bytes()
        [(_, head), *others] = members_of(content)
        manifest = json.loads(head)
        [argument] = manifest["functions"][""]["trees"]["arguments"]
        argument["named"] |= {"class": name, "fields": fields}
        other = path.with_name("other")
        other.write_bytes(relisted([("manifest.json", json.dumps(manifest).encode()), *others]))
        str(inspect(other))
        if error is None:
            assert load(other)(load(other).trees.arguments[0].unflatten([1.0, 1.0])) == 1
        else:
            with pytest.raises(ArtifactError, match=error):
                load(other, allow=("tests",))


@pytest.mark.parametrize(
    "change",
    [
        lambda trees: trees["arguments"].pop(),
        lambda trees: trees["names"].pop(),
        lambda trees: trees.update(outputs=None),
        lambda trees: trees.update(outputs={"leaf": [10**9, None]}),
        lambda trees: trees.update(outputs={"leaf": [-1, None]}),
        lambda trees: trees.update(outputs={"leaf": [True, None]}),
        lambda trees: trees.update(outputs={"leaf": [0, 7]}),
        lambda trees: trees.update(outputs={"data": 0}),
        lambda trees: trees.update(outputs=[{"leaf": [0, None]}, 1.5]),
        lambda trees: trees.update(outputs={"dict": [[{"list": []}, {"leaf": [0, None]}]]}),
        lambda trees: trees.update(outputs={"set": [{"leaf": [0, None]}]}),
        lambda trees: trees.update(keywords=[1]),
        lambda trees: trees.update(keywords={"x": {"leaf": [3, None]}}),
        lambda trees: trees.update(parameters=[["not a name", 1, False]]),
        lambda trees: trees.update(parameters=[["x", 9, False]]),
        lambda trees: trees.update(arguments=[{"constant": 1}]),
        lambda trees: trees.pop("pure"),
    ],
)
def test_hostile_trees(path: Path, change: Any) -> None:
    a, b = pt.dscalar("a"), pt.dscalar("b")
    save(jaxify([{"a": a}, b], {"y": a + b}), path)
    [(_, head), *others] = members_of(path.read_bytes())
    manifest = json.loads(head)
    change(manifest["functions"][""]["trees"])
    path.write_bytes(relisted([("manifest.json", json.dumps(manifest).encode()), *others]))
    with pytest.raises(ArtifactError, match=r"f\.jaxlink"):
        load(path)


def test_sizes_and_generators(path: Path) -> None:
    n, rng = pt.lscalar("n"), pytensor.shared(np.random.default_rng(3), "rng")
    scale = pt.dscalar("scale")
    draws = pt.random.normal(0, scale, size=n, rng=rng)
    fn = jaxify([n, {"scale": scale}], [draws])
    save(fn, path, static={"n": [4]})
    loaded = load(path)
    assert loaded.static_argnums == fn.static_argnums == (0,)
    assert_same_trees(loaded.initial_state(), fn.initial_state())
    state = fn.initial_state()
    expected = jax.jit(fn, static_argnums=0)(4, {"scale": 2.0}, *state)
    assert_same_trees(jax.jit(loaded, static_argnums=0)(4, {"scale": 2.0}, *state), expected)
    with pytest.warns(JAXLinkWarning, match="compiled from its graph"):
        found = loaded(5, {"scale": 2.0}, *state)
    assert found[0].shape == (5,)
    with pytest.raises(TypeError, match="static"):
        jax.jit(loaded)(4, {"scale": 2.0}, *state)


def test_a_size_beside_arrays(path: Path) -> None:
    n, x = pt.lscalar("n"), pt.dvector("x")
    fn = jaxify([{"n": n, "x": x}], pt.zeros(n) + x.sum())
    save(fn, path, static={"n": 2})
    for each in (fn, load(path)):
        with pytest.raises(TypeError, match="argument 0 of jaxified holds n, which must be static"):
            _ = each.static_argnums


def test_a_tree_that_cannot_be_kept(path: Path) -> None:
    a = pt.dscalar("a")

    class Pair:
        def __init__(self, one: Any, other: Any) -> None:
            self.one, self.other = one, other

    jax.tree_util.register_pytree_node(
        Pair, lambda pair: ((pair.one, pair.other), None), lambda _, parts: Pair(*parts)
    )
    where = r"jaxified: inputs\[0\]\['p'\]\[1\] is a tests\.artifact\.test_pure\..*Pair"
    with pytest.raises(ArtifactError, match=where):
        save(jaxify([{"p": (a, Pair(a, a))}], a), path)
    with pytest.raises(ArtifactError, match=r"jaxified: outputs\[0\] is a .*Pair"):
        save(jaxify([a], [Pair(a, a)]), path)
    deep: Any = a
    for _ in range(60):
        deep = [deep]
    with pytest.raises(ArtifactError, match="more than 50 levels deep"):
        save(jaxify([deep], a), path)
    assert not path.exists()


def test_several_functions_of_both_kinds(path: Path) -> None:
    x, weights = pt.dvector("x"), pytensor.shared(np.arange(300.0), "weights")
    plain = pytensor.function([x], (x * weights).sum(), mode="JAXSELECTIVE")
    save({"plain": plain, "pure": jaxify([{"x": x}], {"y": x * weights})}, path)
    loaded = load(path)
    ones = np.ones(300)
    assert loaded["plain"](ones) == plain(ones)
    [state] = loaded["pure"].initial_state()
    np.testing.assert_array_equal(loaded["pure"]({"x": ones}, state)["y"], weights.get_value())
    assert [name for name in inspect(path).manifest["members"] if name.endswith(".npy")] == [
        "arrays/0.npy"
    ]


def test_gradient_and_a_process_without_pytensor(path: Path) -> None:
    fn = line()
    save(fn, path, vjp_order=1, graph=False)
    program = f"""
import sys
sys.modules["pytensor"] = None
import jax, numpy as np
from collections import namedtuple
from pytensor_jaxlink import load
jax.config.update("jax_enable_x64", True)
f = load({str(path)!r})
Line = namedtuple("Line", "slope start")
def loss(parameters):
    x = np.arange(3.0)
    outputs, state = f(parameters, {{"x": x, "empty": ()}}, x, *f.initial_state())
    return outputs["both"][0]
print(jax.grad(loss)(Line(2.0, [1.0, None])))
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Line(slope=Array(3.")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.array([1 + 1j, 2]), "complex numbers"),
        ([1j, 2.0], "complex numbers"),
        (np.ones((2, 2)), r"an array of shape \(2, 2\)"),
        ("ab", "a builtins.str"),
    ],
)
@pytest.mark.parametrize("graph", [True, False])
def test_arguments_of_other_types(given: Any, found: str, graph: bool, path: Path) -> None:
    """A loaded function refuses what the built one refuses, by the same words."""
    x = pt.dvector("x")
    built = jaxify([x], pt.exp(x))
    save(built, path, graph=graph)
    loaded = load(path)
    for function in (built, loaded):
        with pytest.raises(TypeError, match=rf"^x: expected Vector\(float64.*, found {found}"):
            function(given)
        np.testing.assert_array_equal(function([0, 0]), [1, 1])
        np.testing.assert_array_equal(jax.jit(function)([0, 0]), [1, 1])


@pytest.mark.parametrize("graph", [True, False])
def test_numbers_that_an_input_does_not_hold(graph: bool, path: Path) -> None:
    n = pt.bscalar("n")
    built = jaxify([n], n + 1)
    save(built, path, graph=graph)
    for function in (built, load(path)):
        assert function(2.0) == 3
        for given, found in ((2.5, "real numbers"), (300, "integers out of its range")):
            with pytest.raises(TypeError, match=rf"^n: expected Scalar\(int8.*, found {found}"):
                function(given)
        with pytest.raises(TypeError, match="found real numbers"):
            jax.jit(function)(2.0)
