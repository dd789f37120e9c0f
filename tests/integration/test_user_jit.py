"""``jax.jit(f.jax_fn, static_argnums=f.static_argnums)``, and what it leaves behind: nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert, CheckAndRaise

from pytensor_jaxlink import (
    CheckFailedError,
    JAXLinker,
    JAXLinkError,
    NotJittableError,
    jaxify,
    load,
    save,
)
from pytensor_jaxlink.compat import ifelse

X = np.arange(6.0)


class TestExamplesOfTheProposal:
    """The three ways in which a shape can be known."""

    def test_the_shape_of_another_array_is_not_static(self) -> None:
        x, like = pt.dvector("x"), pt.dmatrix("like")
        f = pytensor.function([x, like], x.reshape(like.shape) * 2, mode="JAXSELECTIVE")
        assert f.static_argnums == ()
        with jax.checking_leaks():
            [found] = jax.jit(f.jax_fn)(X, np.zeros((2, 3)))
        np.testing.assert_array_equal(found, 2 * X.reshape(2, 3))

    def test_a_tuple_is_a_static_shape(self) -> None:
        x, shape = pt.dvector("x"), pt.lvector("shape")
        f = pytensor.function([x, shape], x.reshape(shape, ndim=2) * 2, mode="JAXSELECTIVE")
        assert f.static_argnums == (1,)
        jitted = jax.jit(f.jax_fn, static_argnums=f.static_argnums)
        for asked in ((2, 3), (3, 2), (6, -1)):
            with jax.checking_leaks():
                [found] = jitted(X, asked)
            np.testing.assert_array_equal(found, 2 * X.reshape(asked))

    def test_integers_of_a_tuple_are_exact(self) -> None:
        """NumPy makes real numbers of a small integer and one that fits only into uint64."""
        x, counts = pt.dvector("x"), pt.vector("counts", dtype="uint64")
        f = jaxify([x, counts], [x[pt.cast(counts[0], "int64") :], counts[::-1]])
        assert f.static_argnums == (1,)
        for run in (f, jax.jit(f, static_argnums=1)):
            for given in ((3, 2**64 - 2, 2**63 + 1), (1, 2.0), (True, 2**63)):
                part, backward = run(X, given)
                np.testing.assert_array_equal(part, X[int(given[0]) :])
                assert [*map(int, backward)] == [*map(int, given[::-1])]
            for wrong in ((1, 2.5), (-1, 2**63), (1, 2**64), (1, float("nan")), ("1", "2")):
                with pytest.raises(TypeError, match="counts: expected"):
                    run(X, wrong)

    def test_inside_another_jit_the_shape_is_known(self) -> None:
        x, shape = pt.dvector("x"), pt.lvector("shape")
        f = pytensor.function([x, shape], x.reshape(shape, ndim=2) * 2, mode="JAXSELECTIVE")
        inner = jax.jit(f.jax_fn, static_argnums=f.static_argnums)

        @jax.jit
        def outer(values: Any, like: Any) -> Any:
            rows, columns = like.shape
            [once] = inner(values, (rows, columns))
            [again] = f.jax_fn(values, (columns, rows))
            return once @ again

        with jax.checking_leaks():
            found = outer(X, np.zeros((2, 3)))
        np.testing.assert_array_equal(found, 4 * X.reshape(2, 3) @ X.reshape(3, 2))


def test_the_sides_of_a_branch_differ() -> None:
    x, n = pt.dvector("x"), pt.dscalar("n")
    y = pytensor.ifelse(pt.gt(n, 0), x, x[1:]) * 2
    f = pytensor.function([x, n], y, mode="JAXSELECTIVE")
    with pytest.raises(NotJittableError, match="give both sides the same shapes") as caught:
        jax.jit(f.jax_fn)(X, 1.0)
    assert any(Path(__file__).name in note for note in caught.value.__notes__)
    [found] = f.jax_fn(X, np.float64(1.0))  # nobody traces
    np.testing.assert_array_equal(found, 2 * X)


TRANSFORMATIONS: dict[str, Any] = {
    "jit": lambda f: jax.jit(lambda value: f(value))(1.0),
    "grad": lambda f: jax.grad(lambda value: f(value))(1.0),
    "vmap": lambda f: jax.vmap(lambda value: f(value))(np.ones(2)),
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), 0.0), 1.0, None, length=3),
}


@pytest.mark.parametrize("donate", ["none", "updates", "all"])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_no_traced_value_is_left_in_a_shared_variable(name: str, donate: str) -> None:
    state, x = pytensor.shared(1.0, "state"), pt.dscalar("x")
    mode = JAXLinker(donate=donate)
    f = pytensor.function([x], x + state, updates={state: state + x}, mode=mode)
    for expected in (1.0, 3.0):
        with pytest.raises(JAXLinkError, match="PJL408"):
            TRANSFORMATIONS[name](f)
        assert state.get_value() == expected
        f(2.0)


_STATE = """
import json, os, signal, sys, threading, warnings
import numpy as np, jax, pytensor, pytensor.tensor as pt
from pytensor.compile.mode import predefined_linkers, predefined_modes
import pytensor.link.jax.dispatch, scipy.special, scipy.sparse
from pytensor.link.jax.dispatch import jax_funcify, jax_typify

def state():
    return {
        "jax": {name: str(value) for name, value in jax.config.values.items()},
        "pytensor": sorted({part for line in str(pytensor.config).splitlines()
                            for part in line.split(" ") if "object at" not in line
                            # Sets are printed in the order of their hashes.
                            for part in [part.strip("{}(),'")]}),
        "rules": [sorted(map(str, table.registry)) for table in (jax_funcify, jax_typify)],
        "modes": sorted(predefined_modes), "linkers": sorted(predefined_linkers),
        "warnings": [str(entry[2]) for entry in warnings.filters],
        "numpy": [str(np.geterr()), str(np.get_printoptions())],
        "random": str(np.random.get_state()[1][:4]),
        "process": [sorted(os.environ), str(signal.getsignal(signal.SIGINT)),
                    sys.getrecursionlimit(), threading.active_count(), str(sys.excepthook)],
        "finders": [type(finder).__module__ for finder in sys.meta_path],
    }

before = state()
import pytensor_jaxlink as pjl
imported = state()
x, s = pt.dvector("x"), pytensor.shared(np.zeros(300_000), "s")
rng = pytensor.shared(np.random.default_rng(0))
output = pt.unique(pt.exp(x)) * 2 + x[: x.argmax()].sum()
f = pytensor.function([x], output, updates={s: s + 1}, mode=pjl.JAXLinker(device="cpu"))
for length in (3, 4, 5):
    f(np.arange(length + 0.0))
fn = pjl.jaxify([x], x.sum() + pt.random.normal(rng=rng))
jax.jit(jax.grad(fn))(np.zeros(3), *fn.initial_state())
pjl.explain(output)._repr_html_()
print(json.dumps([before, imported, state()]))
"""


def changes(old: Any, new: Any, path: str = "") -> list[str]:
    if isinstance(old, dict):
        pairs = [(f"{path}.{k}", old.get(k), new.get(k)) for k in {**old, **new}]
        return [line for name, a, b in pairs for line in changes(a, b, name)]
    return [] if old == new else [path.removeprefix(".")]


def test_no_other_change_of_global_state() -> None:
    """Section 7 of docs/design.md lists what changes (classes: `tests.test_foreign_state`)."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _STATE],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTENSOR_FLAGS": "cxx="},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    before, imported, after = json.loads(run.stdout.splitlines()[-1])
    assert sorted(changes(before, imported)) == ["finders", "linkers", "modes", "pytensor"]
    [added] = set(imported["pytensor"]) - set(before["pytensor"])
    assert added == "jaxselective"
    assert imported["finders"] == ["pytensor_jaxlink.registration", *before["finders"]]
    assert set(imported["modes"]) - set(before["modes"]) == {"JAXSELECTIVE"}
    assert set(imported["linkers"]) - set(before["linkers"]) == {"jaxselective"}
    assert changes(imported, after) == []


def test_sides_that_shard_map_tells_apart_have_the_same_shapes() -> None:
    """JAX's own error says why: with its check, it asks where on the mesh a value varies."""
    x = pt.dvector("x")
    f = jaxify([x], ifelse(x[0] > 1, pt.ones((1,)), x * 2))
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("rows")

    def mapped(*, check: bool) -> Any:
        return jax.shard_map(f, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=check)

    with pytest.raises(TypeError, match="var"):
        mapped(check=True)(jnp.ones(1))
    assert mapped(check=False)(jnp.ones(1)) == 2


def test_traced_calls_do_not_depend_on_earlier_calls() -> None:
    """Sizes of which plain calls have brought several are data in these alone."""
    x, k = pt.dvector("x"), pt.lscalar("k")
    f = pytensor.function([x, k], x[:k] * 2, mode="JAXSELECTIVE")
    given = jnp.ones(9)

    def traced() -> list[tuple[int, ...]]:
        found = [jax.jit(lambda v, size=size: f(v, size))(given) for size in (3, 4)]
        return [*(each.shape for each in found), jax.grad(lambda v: f(v, 3).sum())(given).shape]

    before = traced()
    for size in (3, 4, 8):
        f(np.ones(9), size)
    assert traced() == before == [(3,), (4,), (9,)]
    np.testing.assert_array_equal(f(np.ones(9), 5), np.full(5, 2.0))


CALLABLES: dict[str, Callable[[Any, Any, Path], Any]] = {
    "function": lambda inputs, outputs, _: pytensor.function(inputs, outputs, mode=JAXLinker()),
    "profiled": lambda inputs, outputs, _: pytensor.function(
        inputs, outputs, mode=JAXLinker(), profile=True
    ),
    "jit=False": lambda inputs, outputs, _: pytensor.function(
        inputs, outputs, mode=JAXLinker(jit=False)
    ),
    "graph layer": lambda inputs, outputs, folder: _saved(inputs, outputs, folder, "graph"),
    "compiled layer": lambda inputs, outputs, folder: _saved(inputs, outputs, folder, "compiled"),
}


def _saved(inputs: Any, outputs: Any, folder: Path, prefer: str) -> Any:
    save(pytensor.function(inputs, outputs, mode=JAXLinker()), folder / "f")
    return load(folder / "f", prefer=prefer)


@pytest.mark.parametrize("name", CALLABLES)
def test_a_traced_call_with_a_check(name: str, tmp_path: Path) -> None:
    """Nobody could raise there: the check is dropped, as in `jax_fn`."""
    x, k = pt.dvector("x"), pt.lscalar("k")
    f = CALLABLES[name]([x, k], x[k] * 2, tmp_path)
    values = np.arange(4.0)
    for _ in range(2):
        assert float(jax.jit(f)(values, np.int64(1))) == 2
        if name != "compiled layer":  # JAX has no batching rule for what it has exported
            np.testing.assert_array_equal(jax.vmap(f, (None, 0))(values, np.arange(3)), [0, 2, 4])
        assert float(f(values, np.int64(-1))) == 6  # and not in other calls
        with pytest.raises(IndexError):
            f(values, np.int64(4))


@pytest.mark.parametrize("name", CALLABLES)
def test_a_traced_call_of_a_graph_that_breaks(name: str, tmp_path: Path) -> None:
    x = pt.dvector("x")
    f = CALLABLES[name]([x], pt.unique(x), tmp_path)
    # Code has no operation to name.
    said = "static_argnums" if name == "compiled layer" else r"1\. unique\(x\) at .*\n.*PJL111"
    for _ in range(2):
        with pytest.raises(NotJittableError, match=said):
            jax.jit(f)(np.arange(4.0))
        assert len(f(np.array([1.0, 1.0, 2.0]))) == 2


def test_a_false_check_of_values_that_nobody_traces() -> None:
    """Another argument is traced, so that PyTensor cannot run."""
    x, k = pt.dvector("x"), pt.lscalar("k")
    f = pytensor.function([x, k], [x.sum(), pt.arange(5)[k]], mode="JAXSELECTIVE")
    assert float(jax.grad(lambda values: f(values, 4)[0])(np.ones(3))[0]) == 1
    with pytest.raises(CheckFailedError, match="a check is false, and JAX traces"):
        jax.grad(lambda values: f(values, 5)[0])(np.ones(3))


CHECKS = {
    "specified": (lambda x: pt.specify_shape(x, (3,)), AssertionError, "axis 0 has 4 entries"),
    "of a row": (lambda x: pt.specify_shape(x[None], (1, 3)), AssertionError, "axis 1 has 4"),
    "asserted": (lambda x: Assert("three")(x, pt.eq(x.shape[0], 3)), AssertionError, "three"),
    "of another class": (
        lambda x: CheckAndRaise(LookupError, "three")(x, pt.eq(x.size, 3)),
        LookupError,
        "three",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_of_the_shape_that_is_traced(name: str) -> None:
    """Nobody reads conditions, but JAX knows this one: the exception is that of PyTensor."""
    x = pt.dvector("x")
    made, kind, said = CHECKS[name]
    f = jaxify([x], made(x).sum() * 2)
    for run in (f, jax.jit(f), jax.grad(f)):
        assert np.all(np.isfinite(run(np.ones(3))))
        with pytest.raises(kind, match=said):
            run(np.ones(4))
    with pytest.raises(kind):
        pytensor.function([x], made(x), mode="JAXSELECTIVE")(np.ones(4))
