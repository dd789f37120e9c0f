"""Any function that JAX can trace is saved: trees, static values, arrays as state, donation."""

from __future__ import annotations

import collections
import functools
import inspect as python
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import ArtifactError, inspect, jaxify, load, save
from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from tests.artifact.damage import members_of, relisted
from tests.helpers import assert_same_trees

ROOT = Path(__file__).resolve().parents[2]


class State(NamedTuple):
    """A state such as those of optax."""

    count: Any
    mean: Any


@jax.tree_util.register_pytree_node_class
class Layer:
    """A callable tree with a static leaf, as modules of equinox are."""

    def __init__(self, weight: Any, bias: Any, activation: Any) -> None:
        self.weight, self.bias, self.activation = weight, bias, activation

    def __call__(self, x: Any, *, power: int = 1) -> Any:
        return self.activation(self.weight @ x + self.bias) ** power

    def doubled(self, x: Any) -> Any:
        """A method to be bound."""
        return 2 * self(x)

    def tree_flatten(self) -> Any:
        """The parts that JAX sees; the function is a leaf as in equinox."""
        return (self.weight, self.bias, self.activation), None

    @classmethod
    def tree_unflatten(cls, _: Any, leaves: Any) -> Layer:
        """The same with other leaves."""
        return cls(*leaves)


def layer() -> Layer:
    """One with weights."""
    return Layer(jnp.arange(12.0).reshape(3, 4) / 10, jnp.ones(3), jnp.tanh)


def step(params: Any, state: State, x: Any, *, rate: float = 0.1) -> Any:
    """A step of training."""
    found = jax.tree.map(lambda p: p - rate * x.mean(), params)
    return {"params": found, "none": None}, State(state.count + 1, (state.mean[0] + x.mean(), ()))


PARAMS = {"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), None], "empty": {}}
CALL = (PARAMS, State(jnp.zeros((), "int32"), (jnp.zeros(()), ())), jnp.arange(4.0))


@pytest.fixture(scope="module")
def step_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "f.jaxlink"
    save(step, path, examples=CALL)
    return path


def test_trees(step_path: Path) -> None:
    path = step_path
    loaded = load(path, allow=("tests",))
    assert isinstance(loaded, LoadedFunction)
    for _ in range(3):
        assert_same_trees(loaded(*CALL), jax.jit(step)(*CALL))
    assert loaded.stats.direct == 3
    assert loaded.stats.compilations == [1]
    assert_same_trees(loaded(CALL[0], x=CALL[2], state=CALL[1]), jax.jit(step)(*CALL))
    assert_same_trees(jax.jit(loaded)(*CALL), jax.jit(step)(*CALL))
    assert_same_trees(loaded.jax_fn(*CALL), jax.jit(step)(*CALL))
    assert loaded.input_names == (
        "params['b'][0]", "params['w']", "state.count", "state.mean[0]", "x",
    )  # fmt: skip
    assert loaded.output_names[0] == "outputs[0]['params']['b'][0]"
    assert loaded.static_argnums == loaded.donate_argnums == ()
    assert "step(params['b'][0]: float" in str(inspect(path))
    other = load(path)(*CALL)[1]
    assert type(other) is not State
    assert type(other).__name__ == "State"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"w": PARAMS["w"]}, *CALL[1:]), r"step: params: expected a dict with the keys 'b', "),
        (({**PARAMS, "b": [None, None]}, *CALL[1:]), "params['b'][0]: expected float"),
        (({**PARAMS, "b": [PARAMS["b"][0], 1]}, *CALL[1:]), "params['b'][1]: expected None"),
        (({**PARAMS, "b": (PARAMS["b"][0], None)}, *CALL[1:]), "params['b']: expected a list of"),
        ((PARAMS, (0, (0.0, ())), CALL[2]), "state: expected a State with the fields count, mean"),
        ((*CALL[:2], jnp.ones(5)), r"x: expected float\d\d\[4\], found an array of shape \(5,\)"),
        ((*CALL[:2], jnp.ones((1, 4))), "x: expected .* found an array of shape"),
        ((*CALL[:2], jnp.ones(4, "int8")), "x: expected .* found an array of int8"),
        ((*CALL[:2], "text"), "x: expected .* found a builtins.str"),
        ((*CALL[:2], 1.0), "x: expected .* found an array "),
        ((*CALL[:2], [1.0] * 4), "x: expected .* found a builtins.list"),
        (CALL[:2], "step: missing a required argument: 'x'"),
        ((*CALL, 1), "step: too many positional arguments"),
    ],
)
def test_wrong_arguments(step_path: Path, arguments: Any, message: str) -> None:
    loaded = load(step_path)
    text = message.replace("[", r"\[").replace("]", r"\]") if r"\d" not in message else message
    for _ in range(2):
        with pytest.raises((TypeError, ValueError), match=text):
            loaded(*arguments)
    loaded(*CALL)
    with pytest.raises((TypeError, ValueError), match=text):
        loaded(*arguments)


def test_what_was_not_given(path: Path) -> None:
    save(step, path, examples=CALL)
    text = "was saved for the arguments params, state, x; found params, state, x, rate"
    with pytest.raises(TypeError, match=text):
        load(path)(*CALL, rate=0.2)
    save(
        step,
        path,
        examples=[{**dict(zip(("params", "state", "x"), CALL, strict=True)), "rate": 0.5}],
    )
    assert_same_trees(
        load(path, allow=("tests",))(*CALL, rate=0.25), jax.jit(step)(*CALL, rate=0.25)
    )
    with pytest.raises(TypeError, match="found params, state, x"):
        load(path)(*CALL)


def power(x: Any, n: int, mode: str, scale: Any = 1.0) -> Any:
    """A function of static values."""
    for _ in range(n):
        x = x * x
    return {"x": x * scale} if mode == "dict" else {"x": x}


@pytest.mark.parametrize("jitted", [True, False])
def test_static_values(path: Path, jitted: bool) -> None:
    f = jax.jit(power, static_argnums=(1, 2)) if jitted else power
    calls = [(jnp.ones(3) * 2, n, mode) for n in (2, 3) for mode in ("dict", "other")]
    save(f, path, examples=calls, static_argnums=() if jitted else "n")
    loaded = load(path)
    for call in calls:
        assert_same_trees(loaded(*call), power(*call))
    assert_same_trees(loaded(calls[0][0], mode="dict", n=3), power(calls[0][0], 3, "dict"))
    assert_same_trees(jax.jit(loaded, static_argnums=(1, 2))(*calls[3]), power(*calls[3]))
    assert loaded.static_argnums == (1, 2)
    text = 'no code was saved for n = 5, mode = "dict", x = .* There is code for n = 2, mode = '
    with pytest.raises(ArtifactError, match=text):
        loaded(jnp.ones(3), 5, "dict")
    for other in (2.0, True, "2", None):  # of other types than the int
        with pytest.raises(ArtifactError, match="no code was saved for n = "):
            loaded(jnp.ones(3), other, "dict")
    with pytest.raises(TypeError, match=r"mode: .* cannot be kept: a builtins\.function is not"):
        loaded(jnp.ones(3), 2, power)


def test_static_values_of_all_kinds(path: Path) -> None:
    statics = [
        None, True, 1, 1.0, "a", (1, (2, "b")), [1], {"a": (1,), 2: None}, {1, 2}, frozenset("ab"),
        float("nan"), float("-inf"), -0.0, 0.0, 1j, np.dtype("f4"), np.float32(2), ..., slice(1, 2),
    ]  # fmt: skip
    example = [(np.ones(2), static) for static in statics]
    save(lambda x, s: x * len(repr(s)), path, examples=example, static_argnums=1)
    loaded = load(path)
    for x, static in example:
        assert float(loaded(x, static)[0]) == len(repr(static)), static


def test_static_values_that_cannot_be_kept(path: Path) -> None:
    for bad in (power, object(), np.ones(2), [1, object], {"a": State}, pytest):
        with pytest.raises(ArtifactError, match=r"<lambda>: s, which is static: .* cannot be"):
            save(lambda x, s: x, path, examples=(1.0, bad), static_argnums=-1)
    with pytest.raises(ArtifactError, match=r"p\['a'\]\[0\], which is static: <obj"):
        save(lambda p: 1.0, path, examples=({"a": [object()]},))
    with pytest.raises(ArtifactError, match=r"static_argnums has 'y', which the example lacks"):
        save(lambda x: x, path, examples=(1.0,), static_argnums="y")
    twice = jax.jit(lambda x, m, n: x * m + n, static_argnums=2)
    with pytest.raises(ArtifactError, match="Name the arguments that are no arrays"):
        save(twice, path, examples=(1.0, 2, 3))
    save(twice, path, examples=(1.0, 2, 3), static_argnums=2)
    assert load(path)(1.0, 4, 3) == 7
    assert not any("tmp" in each.name for each in path.parent.iterdir())


@pytest.mark.parametrize(
    ("kept", "name"),
    [
        (lambda w: jax.tree_util.Partial(lambda w, x: w @ x, w), "[<flat index 0>][0]"),
        (lambda w: functools.partial(lambda p, x: p["w"] @ x + p["x"], {"w": w, "x": w[0, 0]}),
         "args[0]['w']"),
        (lambda w: jax.jit(functools.partial(lambda p, x: p @ x, w)), "args[0]"),
        (lambda w: Layer(w, 1.0, jnp.sin), "[<flat index 0>]"),
        (lambda w: Layer(w, 1.0, jnp.sin).doubled, "[<flat index 0>]"),
        (lambda w: jax.jit(Layer(w, 1.0, jnp.sin).doubled), "[<flat index 0>]"),
        (lambda w: lambda x: w @ x, "constant 0"),
        (lambda w: lambda x: jax.jit(lambda y: w @ y)(x), "constant 0"),
        (lambda w: lambda x: jax.lax.scan(lambda c, _: (w @ c, None), x, None, 2)[0], "constant 0"),
        (lambda w: jax.vmap(lambda x: jax.jit(jax.jit(lambda y: jnp.dot(w[0], y)))(x + w)[0]),
         "constant 0"),
    ],
)  # fmt: skip
def test_arrays_are_state(path: Path, kept: Any, name: str) -> None:
    w = jnp.asarray(np.random.default_rng(0).normal(size=(30, 30)))
    f, x = kept(w), jnp.ones((30,)) / 7
    save(f, path, examples=(x,), dims={}, vjp_order=1)
    loaded = load(path)
    np.testing.assert_allclose(loaded(x), f(x), rtol=1e-6)
    assert path.stat().st_size < w.nbytes + 20_000
    assert loaded.state[0].name == name
    np.testing.assert_array_equal(loaded.state[0].get_value(), w)
    before = np.asarray(loaded(x))
    loaded.state[0].set_value(np.zeros((30, 30), w.dtype))
    assert not np.array_equal(loaded(x), before)
    np.testing.assert_array_equal(
        loaded.jax_fn(x, w, *[s.storage[0] for s in loaded.state[1:]]), before
    )


def test_one_array_is_one_object(path: Path) -> None:
    w = jnp.asarray(np.random.default_rng(0).normal(size=(40, 40)))
    shared = functools.partial(lambda p, x: p["a"] @ x + p["b"].T @ x, {"a": w, "b": w})
    other = functools.partial(lambda w, x: (w * x).sum(), w)
    x = jnp.ones(40)
    save({"shared": shared, "other": other}, path, examples={"shared": (x,), "other": (x,)})
    members = inspect(path).manifest["members"]
    assert [name for name in members if name.endswith(".npy")] == ["arrays/0.npy"]
    loaded = load(path)
    [one], [two] = loaded["shared"].state, loaded["other"].state
    assert one is two
    np.testing.assert_allclose(loaded["shared"](x), shared(x), rtol=1e-6)
    one.set_value(np.zeros((40, 40), w.dtype))
    assert float(loaded["other"](x)) == 0 == float(abs(loaded["shared"](x)).max())


def test_a_callable_tree(path: Path) -> None:
    model, x = layer(), jnp.arange(4.0)
    save(model, path, examples=[{"x": x, "power": power} for power in (1, 2)])
    loaded = load(path)
    for power in (1, 2):
        np.testing.assert_allclose(loaded(x, power=power), model(x, power=power), rtol=1e-6)
    gradient = jax.grad(lambda w: model.doubled(x).sum() * w)(1.0)
    save(model.doubled, path, examples=(x,), vjp_order=1)
    found = jax.grad(lambda w: load(path)(x * w).sum())(1.0)
    expected = jax.grad(lambda w: model.doubled(x * w).sum())(1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert gradient != 0


def test_donation(path: Path) -> None:
    def f(x: Any, y: Any) -> Any:
        return {"x": x["a"] + y, "y": y * 2}

    jitted = jax.jit(f, donate_argnums=0)

    def around(x: Any, y: Any) -> Any:
        return jitted(x, y)

    for each in (jitted, around):
        save(each, path, examples=({"a": jnp.ones(300_000)}, jnp.ones(300_000)))
        loaded = load(path)
        assert loaded.donate_argnums == (0,)
        for _ in range(3):
            x, y = jnp.ones(300_000), jnp.ones(300_000)
            found = loaded({"a": x}, y)
            assert x.is_deleted()
            assert not y.is_deleted()
            assert float(found["x"][0]) == 2
        both = jnp.ones(300_000)
        with pytest.raises((ValueError, RuntimeError), match="donate"):
            jitted({"a": both}, both)
        assert_same_trees(loaded({"a": both}, both), f({"a": both}, both))  # not donated then
        assert_same_trees(loaded({"a": np.ones(300_000)}, np.ones(300_000)), f({"a": both}, both))


def test_arrays_of_all_kinds(path: Path) -> None:
    bits = jnp.arange(300, dtype="bfloat16")
    key = jax.random.key(3)
    held = {
        "bits": bits,
        "key": jax.random.split(key, 2),
        "none": jnp.zeros((0, 3)),
        "small": bits[:2],
    }

    def f(held: Any, x: Any, key: Any, raw: Any, empty: Any, number: Any) -> Any:
        return {
            "sum": held["bits"] * x,
            "draw": jax.random.normal(key, (2,)) + jax.random.normal(held["key"][1], (2,)),
            "key": jax.random.split(key, 3),
            "raw": jax.random.uniform(raw),
            "empty": jnp.concatenate([empty, held["none"]]),
            "number": number * held["small"],
            "scalar": 2,
        }

    g = functools.partial(f, held)
    call = (bits, key, jax.random.PRNGKey(1), jnp.ones((0, 3)), 2.0)
    save(g, path, examples=call)
    assert_same_trees(load(path)(*call), jax.jit(g)(*call))
    assert_same_trees(load(path)(bits, jax.random.key(4), call[2], np.ones((0, 3)), 0.5),
         jax.jit(g)(bits, jax.random.key(4), call[2], jnp.ones((0, 3)), 0.5))  # fmt: skip
    other = jax.random.key(0, impl="rbg")
    with pytest.raises(TypeError, match="key: expected a key of threefry2x32, found a key of rbg"):
        load(path)(bits, other, *call[2:])
    with pytest.raises(TypeError, match=r"number: expected .*, found the number 1"):
        load(path)(*call[:-1], 1)
    with pytest.raises(ArtifactError, match="x cannot be an array of JAX"):
        save(lambda x: 1.0, path, examples=(np.array(["a"]),))


def test_no_arrays(path: Path) -> None:
    save(dict, path, examples=())
    assert load(path)() == {}
    save(lambda x, y: (x, None, y), path, examples=({}, jnp.zeros(2)))
    found = load(path)({}, jnp.ones(2))
    assert found[:2] == ({}, None)
    np.testing.assert_array_equal(found[2], np.ones(2))
    save(lambda *xs, **ys: sum(xs) + ys["b"], path, examples=python.signature(
        lambda *xs, **ys: 0).bind(1.0, 2.0, b=3.0))  # fmt: skip
    assert load(path)(1.0, 2.0, b=4.0) == 7
    with pytest.raises(TypeError, match=r"for the arguments args\[0\], args\[1\], b; found args"):
        load(path)(1.0, b=3.0)
    save(jnp.sin, path, examples=(1.0,))
    assert load(path)(0.0) == 0


def test_open_dimensions(path: Path) -> None:
    w = jnp.ones((3, 2))

    def f(p: Any, x: Any, y: Any) -> Any:
        return {"out": x @ p["w"] + y[:, None], "first": x[1]}

    call = ({"w": w}, jnp.ones((4, 3)), jnp.ones(4))
    save(f, path, examples=call, dims={"x": ("rows", None), "y": "rows"}, vjp_order=1)
    loaded = load(path)
    for rows in (4, 7, 2):
        x, y = jnp.ones((rows, 3)), jnp.arange(float(rows))
        assert_same_trees(loaded({"w": w}, x, y), jax.jit(f)({"w": w}, x, y))
        assert (
            jax.grad(lambda p, x=x, y=y: loaded(p, x, y)["out"].sum())({"w": w})["w"][0, 0] == rows
        )
    text = "axis 0 of y has length 3, axis 0 of x has 5, and they must be equal: no code was saved"
    with pytest.raises(ArtifactError, match=text):
        loaded({"w": w}, jnp.ones((5, 3)), jnp.ones(3))
    with pytest.raises(ArtifactError, match=r"an example of such a call, or with dims"):
        loaded({"w": w}, jnp.ones((0, 3)), jnp.ones(0))  # open dimensions are at least 1
    with pytest.raises(TypeError, match=r"p\['w'\]: expected .*\[3, 2\], found an array of shape"):
        loaded({"w": jnp.ones((3, 3))}, jnp.ones((4, 3)), jnp.ones(4))
    with pytest.raises(ArtifactError, match="dims names z, and the inputs are"):
        save(f, path, examples=call, dims={"z": "n"})
    with pytest.raises(ArtifactError, match="dims has 1 lengths for x, which has 2"):
        save(f, path, examples=call, dims={"x": "n"})
    with pytest.raises(ArtifactError, match="there is no code for the dimensions that dims opens"):
        save(lambda x: jnp.linalg.eigh(x.reshape(2, -1))[0], path, examples=(jnp.ones((2, 2)),),
             dims={"x": ("n", None)})  # fmt: skip


def test_examples_that_are_none(path: Path) -> None:
    for examples, message in (
        (None, r"Give arguments of a call, or several: save\(fn, path, examples=\(x, y\)\)"),
        ([], "Give arguments of a call"),
        ((1.0, 2.0, 3.0), "an example is no call of it: too many positional arguments"),
        (jnp.ones(3), "an example is a tuple of arguments, a dictionary of keyword arguments"),
        ([(1.0, 2), (1.0, 2.0)], "two examples have other types of arguments"),
        ([(1.0, (2,)), (1.0, 2)], "two examples have other arguments"),
    ):
        with pytest.raises(ArtifactError, match=message):
            save(lambda x, y: x, path, examples=examples)
    with pytest.raises(ArtifactError, match=r"have other trees of results: .* Save them as"):
        save(lambda x, n: (x,) * n, path, examples=[(1.0, 2), (1.0, 3)], static_argnums=1)
    with pytest.raises(ArtifactError, match=r"(?s)JAX cannot trace it .* static_argnums"):
        save(lambda x, n: x * jnp.ones(n), path, examples=(1.0, 2))
    x = pt.dvector("x")
    with pytest.raises(ArtifactError, match="examples and static_argnums are for functions of JAX"):
        save(jaxify([x], x), path, examples=(np.ones(2),))
    with pytest.raises(ArtifactError, match="a function of JAX has a compiled layer only"):
        save(lambda x: x, path, examples=(1.0,), compiled=False)
    with pytest.raises(ArtifactError, match="the function is a int"):
        save(3, path, examples=(1.0,))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArtifactError, match=r"JAX cannot export it .*callbacks"):
        save(lambda x: jax.pure_callback(np.sin, x, x), path, examples=(1.0,))
    assert not path.exists()


def test_a_node_that_a_file_cannot_make(path: Path) -> None:
    text = (
        r"train: params\['m'\] is a tests\..*\.Layer, which a file cannot make again.*partial\(fn"
    )

    def train(params: Any, x: Any) -> Any:
        return params["m"](x)

    with pytest.raises(ArtifactError, match=text):
        save(train, path, examples=({"m": layer()}, jnp.ones(4)))
    with pytest.raises(ArtifactError, match=r"<lambda>: outputs\[1\] is a tests\..*\.Layer, which"):
        save(lambda x: (x, layer()), path, examples=(1.0,))


def test_with_functions_of_pytensor(path: Path) -> None:
    x, weights = pt.dvector("x"), pytensor.shared(np.arange(300.0), "weights")
    f = pytensor.function([x], (x * weights).sum(), mode="JAXSELECTIVE")
    g = functools.partial(lambda w, x: (w * x).sum(), jnp.asarray(np.arange(300.0)))
    save({"f": f, "g": g, "h": jaxify([x], [x * 2])}, path, examples={"g": (jnp.ones(300),)})
    ones = np.ones(300)
    for prefer in ("compiled", "graph"):
        loaded = load(path, prefer=prefer)
        assert loaded["f"](ones) == loaded["g"](ones) == f(ones)
    assert loaded["f"].explain().graph_break_count == 0
    assert inspect(path).manifest["without_graph"] == {"g": "it is a function of JAX"}
    with pytest.raises(ArtifactError, match="because it is a function of JAX"):
        loaded["g"].explain()


def test_hostile_files(path: Path, step_path: Path) -> None:
    members = members_of(step_path.read_bytes())
    [(_, head), *others] = members

    def changed(change: Any) -> Path:
        manifest = json.loads(head)
        change(manifest["functions"][""])
        other = path.with_name("other")
        other.write_bytes(relisted([("manifest.json", json.dumps(manifest).encode()), *others]))
        return other

    for change in (
        lambda f: f["trees"].update(parameters=[["x", 3, False], ["y", 1, False]]),
        lambda f: f["trees"].update(parameters=[["self; import os", 1, False]]),
        lambda f: f["trees"].update(outputs=[{"constant": {"data": 0}}]),
        lambda f: f["trees"].update(outputs={"named": {"class": 3, "fields": [], "parts": []}}),
        lambda f: f["trees"]["arguments"].append({"leaf": [0, None], "list": []}),
        lambda f: f["inputs"][0].update(cell=0),
        lambda f: f["inputs"][0].update(cell=10**6),
        lambda f: f["inputs"][0]["type"].update(dtype="object"),
        lambda f: f["inputs"][0]["type"].update(dtype="V8"),
        lambda f: f["inputs"].pop(),
        lambda f: f["outputs"].pop(),
    ):
        with pytest.raises(ArtifactError, match="other"):
            load(changed(change))
    # What is no fault of the form shows in the call.
    wrong = load(changed(lambda f: f["inputs"][0]["type"].update(dtype="int8")))
    with pytest.raises(TypeError, match="expected"):
        wrong(*CALL)
    keyed = changed(lambda f: f["trees"].update(outputs=_with_key(f["trees"]["outputs"])))
    with pytest.raises((ArtifactError, TypeError, ValueError)):
        load(keyed)(*CALL)


def _with_key(outputs: Any) -> Any:
    text = json.dumps(outputs).replace("[0, null]", '[0, "threefry2x32"]')
    return json.loads(text)


def test_a_process_of_jax_alone(path: Path) -> None:
    """Saving leaves JAX's configuration; loading needs neither PyTensor nor the class."""
    program = f"""
import sys, jax, jax.numpy as jnp
from functools import partial
from pytensor_jaxlink import save
f = jax.jit(partial(lambda w, x, n: w @ x * n, jnp.ones((3, 2))), donate_argnums=0)
save(f, {str(path)!r}, examples=(jnp.ones(2), 2.0))
assert not jax.config.jax_enable_x64
print(jnp.ones(2).dtype)
"""
    other = f"""
import sys
sys.modules["pytensor"] = None
import jax, numpy as np
from pytensor_jaxlink import load
f = load({str(path)!r})
print(repr(f(np.ones(2), 3.0)), f.donate_argnums, jax.config.jax_enable_x64, f.stats.direct)
print(repr(jax.jit(f)(np.ones(2), 3.0)))
"""
    texts = []
    for each in (program, other):
        run = subprocess.run(
            [sys.executable, "-c", each],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        texts.append(run.stdout)
    assert texts[0] == "float32\n"
    values = "Array([6., 6., 6.], dtype=float32)"
    assert texts[1] == f"{values} (0,) False 1\n{values}\n"


def test_options_that_a_function_of_jax_does_not_take(path: Path) -> None:
    call = (jnp.ones(3), 2)
    with pytest.raises(ArtifactError, match="static names n, and there is code for the static"):
        save(power_of, path, examples=call, static_argnums="n", static={"n": [3]})
    with pytest.raises(ArtifactError, match="dims names n, which is static"):
        save(power_of, path, examples=call, static_argnums="n", dims={"n": "k"})
    assert not path.exists()


def power_of(x: Any, n: int) -> Any:
    """A power."""
    return x**n


def test_many_named_tuples(path: Path) -> None:
    """Each class costs Python a compilation: a file has a limited number."""
    kinds = [collections.namedtuple(f"Kind{number}", "a b") for number in range(101)]
    with pytest.raises(ArtifactError, match="too many named tuples"):
        save(lambda x: 1.0, path, examples=([kind(1.0, 2.0) for kind in kinds],))
    wide = collections.namedtuple("wide", [f"f{number}" for number in range(300)])
    with pytest.raises(ArtifactError, match="too many fields"):
        save(lambda x: 1.0, path, examples=(wide(*range(300)),))
