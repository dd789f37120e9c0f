"""Results of our functions go back into graphs, where NumPy arrays go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Variable
from pytensor.tensor.type import TensorType

from pytensor_jaxlink import JAXLinkError

X, M = pt.dvector("x"), pt.dmatrix("m")
VALUES = {X: np.array([1.5, -2.0, 3.0]), M: np.arange(6.0).reshape(2, 3)}


def results() -> dict[str, Any]:
    """Results of one of our functions: a vector, a number, an index, a shape, a mask."""
    outputs = [X * 2, X.sum(), pt.shape(X)[0] - 1, M.shape, X > 0]
    f = pytensor.function([X, M], outputs, mode="JAXSELECTIVE")
    return dict(zip(["r", "r0", "i", "n", "b"], f(VALUES[X], VALUES[M]), strict=True))


RESULTS = results()
NUMPY = {name: np.asarray(value) for name, value in RESULTS.items()}

GRAPHS: dict[str, Callable[..., Any]] = {
    "as_tensor": lambda r, **_: pt.as_tensor(r),
    "as_tensor, named and cast": lambda r, **_: pt.as_tensor(r, name="r", dtype="float32"),
    "as_tensor, ndim": lambda r0, **_: pt.as_tensor(r0, ndim=2),
    "constant": lambda r, **_: pt.constant(r),
    "x + r": lambda r, **_: X + r,
    "r + x": lambda r, **_: r + X,
    "r - x": lambda r, **_: r - X,
    "r / x": lambda r, **_: r / X,
    "r % x": lambda r, **_: r % X,
    "r ** x": lambda r, **_: abs(r) ** X,
    "x ** r0": lambda r0, **_: abs(X) ** r0,
    "r < x": lambda r, **_: r < X,
    "x >= r": lambda r, **_: r <= X,
    "eq": lambda r, **_: pt.eq(r, X),
    "b & x": lambda b, **_: b & (X > 2),
    "m @ r": lambda r, **_: M @ r,
    "r @ x": lambda r, **_: r @ X,
    "exp": lambda r, **_: pt.exp(r),
    "where": lambda b, r, **_: pt.where(b, X, r),
    "concatenate": lambda r, **_: pt.concatenate([X, r]),
    "stack": lambda r0, **_: pt.stack([r0, X[0]]),
    "a list": lambda r0, **_: pt.as_tensor([r0, X[0]]),
    "x[i]": lambda i, **_: X[i],
    "x[-i]": lambda i, **_: X[-i],
    "x[:i]": lambda i, **_: X[:i],
    "x[n]": lambda n, **_: X[n - 1],
    "x[b]": lambda b, **_: X[b],
    "m[0, b]": lambda b, **_: M[0, b],
    "m[..., i]": lambda i, **_: M[..., i],
    "m[[i, 0], 1]": lambda i, **_: M[[i - 1, 0], 1],
    "m[None, i - 1]": lambda i, **_: M[None, i - 1],
    "set": lambda r, **_: X[:3].set(r),
    "set at": lambda i, r0, **_: X[i].inc(r0),
    "zeros": lambda i, **_: pt.zeros((i, 2)),
    "zeros, shape": lambda n, **_: pt.zeros(n),
    "zeros, tuple": lambda n, **_: pt.zeros(tuple(n)),
    "full": lambda i, r0, **_: pt.full((i,), r0),
    "arange": lambda i, **_: pt.arange(i),
    "eye": lambda i, **_: pt.eye(i),
    "reshape": lambda n, **_: M.reshape(n[::-1]),
    "reshape, part": lambda i, **_: M.reshape((i, -1)),
    "broadcast_to": lambda i, **_: pt.broadcast_to(X, (i, 3)),
    "ones": lambda n, **_: pt.ones(n),
    "empty": lambda n, **_: pt.empty(n) * 0,
    "zeros, one length": lambda n, **_: pt.zeros(n[:1]),
    "specify_shape": lambda n, **_: pt.specify_shape(M, tuple(n)),
    "tile": lambda i, **_: pt.tile(X, i),
    "sum": lambda i, **_: M.sum(axis=i - 1),
    "max, axes": lambda i, **_: M.max(axis=(i - 2, i - 1)),
    "roll": lambda i, **_: pt.roll(X, i),
    "diff": lambda i, **_: pt.diff(X, i),
    "linspace": lambda r0, i, **_: pt.linspace(r0, 1, i),
    "scan": lambda r, r0, i, **_: _scanned(pt.as_tensor(r), r0, int(i)),
    "a shared variable": lambda r, **_: pytensor.shared(r) + X,
    "a shared number": lambda r0, **_: pytensor.shared(r0) * X,
    "the length of a type": lambda n, **_: pt.specify_shape(
        M, pt.tensor("t", shape=tuple(n)).type.shape
    ),
}


def _scanned(sequence: Any, start: Any, count: int) -> Any:
    return pytensor.scan(
        lambda a, b: a * b,
        sequences=[sequence],
        outputs_info=[start],
        n_steps=count,
        return_updates=False,
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_as_numpy_arrays_do(name: str) -> None:
    build = GRAPHS[name]
    assert all(isinstance(value, jax.Array) for value in RESULTS.values())
    found = build(**RESULTS)
    expected = build(**NUMPY)
    assert isinstance(found, Variable)
    assert found.type == expected.type


def test_the_values() -> None:
    names = [name for name in GRAPHS if "scan" not in name]
    made = {}
    for key, values in {"jax": RESULTS, "numpy": NUMPY}.items():
        graphs = [GRAPHS[name](**values) for name in names]
        mode = "JAXSELECTIVE" if key == "jax" else "FAST_COMPILE"
        made[key] = pytensor.function(list(VALUES), graphs, mode=mode)(*VALUES.values())
    for name, one, other in zip(names, made["jax"], made["numpy"], strict=True):
        np.testing.assert_allclose(one, other, err_msg=name)


def test_draws_of_a_size() -> None:
    for size in (RESULTS["n"], tuple(RESULTS["n"]), (RESULTS["i"],), RESULTS["i"]):
        draw = pt.random.normal(RESULTS["r0"], size=size)
        assert draw.eval(mode="FAST_COMPILE").shape == tuple(np.atleast_1d(np.asarray(size)))


def test_as_values() -> None:
    r = RESULTS["r"]
    held = np.asarray(r)
    np.testing.assert_array_equal(pytensor.function([], X + 1, givens={X: r})(), held + 1)
    np.testing.assert_array_equal((X + 1).eval({X: r}), held + 1)
    state = pytensor.shared(np.zeros(3))
    state.set_value(r)
    np.testing.assert_array_equal(state.get_value(), held)
    pytensor.function([], [], updates={state: r})()
    np.testing.assert_array_equal(state.get_value(), held)


@pytest.mark.filterwarnings("ignore")  # newer PyTensor has no defaults any more
@pytest.mark.parametrize("mode", ["FAST_COMPILE", "JAXSELECTIVE"])
def test_as_a_default(mode: str) -> None:
    try:
        f = pytensor.function([pytensor.In(X, value=RESULTS["r"])], X + 1, mode=mode)
    except ValueError as error:
        pytest.skip(str(error))
    np.testing.assert_array_equal(f(), np.asarray(RESULTS["r"]) + 1)


def test_a_shared_variable_is_a_tensor_that_owns_its_value() -> None:
    made = pytensor.shared(RESULTS["r"], name="state", shape=(3,))
    assert (made.type, made.name) == (TensorType("float64", (3,)), "state")
    assert made.get_value(borrow=True).flags.writeable


def test_types_that_pytensor_lacks() -> None:
    with pytest.raises(TypeError):
        pt.as_tensor(jnp.ones(2, jnp.bfloat16))
    with pytest.raises(TypeError):
        pt.as_tensor(jax.random.key(0))


@pytest.mark.parametrize(
    "use",
    [pt.as_tensor, pytensor.shared, pt.exp, lambda v: X + v, lambda v: v * X, lambda v: X[v]],
)
def test_traced_values_are_refused(use: Callable[[Any], Any]) -> None:
    with pytest.raises(JAXLinkError, match=r"is a value that JAX traces.*Make it an input"):
        jax.jit(lambda v: use(v).type.ndim)(1)


def test_lines_are_still_those_of_the_user() -> None:
    element = X[RESULTS["i"]]
    [*_, (file, *_)] = element.owner.outputs[0].tag.trace[0]
    assert file == __file__


def test_other_errors_stay() -> None:
    with pytest.raises(TypeError, match="bools"):
        X[[True, False]]
    with pytest.raises(IndexError):
        X[RESULTS["i"], 0]
