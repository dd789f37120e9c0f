"""`jaxify`: pure functions of pytrees, under every transformation of JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import predefined_linkers, predefined_modes
from pytensor.gradient import NullTypeGradError
from pytensor.graph.utils import MethodNotDefined, MissingInputError
from pytensor.link.jax.dispatch.basic import jax_funcify
from pytensor.scalar import basic as scalar_basic
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp
from pytensor.sparse import structured_dot
from pytensor.tensor.elemwise import Elemwise

from pytensor_jaxlink import JAXLinker, NotJittableError, UntranspilableOpError, jaxify
from pytensor_jaxlink.link import PureFunction
from tests.edges.compare import quickly
from tests.helpers import PYTHON, black_box, sort_down
from tests.ops.table import JITTABLE, answer

X = np.array([1.0, 2.0, 3.0])
BATCH = np.arange(1.0, 13.0).reshape(4, 3)


class TestPytrees:
    def test_nested_inputs_and_outputs(self) -> None:
        w, b, x = pt.dmatrix("w"), pt.dvector(), pt.dvector("x")
        layer = w @ x + b
        fn = jaxify([{"layers": [(w, b)]}, x], {"out": layer, "parts": (layer.sum(), [x * 2])})
        found = fn({"layers": [(BATCH, np.ones(4))]}, X)
        np.testing.assert_allclose(found["out"], BATCH @ X + 1)
        np.testing.assert_allclose(found["parts"][0], (BATCH @ X + 1).sum())
        np.testing.assert_allclose(found["parts"][1][0], X * 2)
        assert fn.input_names == ("w", "inputs[0]['layers'][0][1]", "x")
        assert fn.output_names == (
            "outputs['out']",
            "outputs['parts'][0]",
            "outputs['parts'][1][0]",
        )

    def test_gradients_have_the_structure_of_the_argument(self) -> None:
        w, b = pt.dvector("w"), pt.dscalar("b")
        fn = jaxify([{"w": w, "b": b}], ((w * b) ** 2).sum())
        slope = jax.jit(jax.grad(fn))({"w": X, "b": 2.0})
        np.testing.assert_allclose(slope["w"], 8 * X)
        np.testing.assert_allclose(slope["b"], 4 * (X**2).sum())

    def test_one_variable_and_one_dict_are_one_argument(self) -> None:
        x = pt.dvector("x")
        np.testing.assert_allclose(jaxify(x, x * 2)(X), X * 2)
        np.testing.assert_allclose(jaxify({"x": x}, [x * 2])({"x": X})[0], X * 2)
        assert jaxify([], pt.constant(2.0))() == 2.0
        assert jaxify([None, x], {"nothing": None})(None, X) == {"nothing": None}

    def test_a_value_of_another_structure(self) -> None:
        x, y = pt.dvectors("x", "y")
        fn = jaxify([{"x": x, "y": y}], x + y)
        with pytest.raises(ValueError, match="keys"):
            fn({"x": X})


@pytest.mark.parametrize("length", [0, 3, 100_000])
@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_arrays_of_jax_come_out_whatever_goes_in(length: int, kind: Any) -> None:
    """What NumPy computes, because all is known; what an Op on the host gives; an input."""
    x, a = pt.dvector("x"), pt.dscalar("a")
    fn = jaxify([x, a], {"doubled": x * 2, "host": black_box(sort_down)(x), "own": x, "one": a + 1})
    given = kind(np.arange(float(length)))
    found = fn(given, 0.5)
    assert all(isinstance(value, jax.Array) for value in found.values())
    np.testing.assert_array_equal(found["own"], np.arange(length))
    if isinstance(given, np.ndarray):
        given[:] = -1
        np.testing.assert_array_equal(found["own"], np.arange(length))


def test_what_is_known_stays_known_in_a_trace() -> None:
    n = pt.lscalar("n")
    length = jaxify([n], n + 1)
    found = jax.jit(lambda x: jnp.zeros(int(length(3))) + x)(1.0)
    np.testing.assert_array_equal(found, np.ones(4))


def test_names_of_a_function() -> None:
    x, total = pt.dvector("x"), pytensor.shared(np.zeros(()), "total")
    y = x * 2
    y.name = "y"
    f = pytensor.function([x], [y, x.sum()], updates={total: total + 1}, mode="JAXSELECTIVE")
    assert f.input_names == ("x", "total")
    assert (f.output_names[0], f.output_names[2]) == ("y", "total")
    assert len(f.output_names) == len(f.jax_fn(X, 0.0))


class TestWrongCalls:
    def test_a_missing_input_is_named(self) -> None:
        x, y, z = pt.dvectors("x", "y", "z")
        with pytest.raises(MissingInputError, match=r"depend on z, y, and the inputs are x: add"):
            jaxify([x], {"out": x + y * z})
        state = pytensor.shared(X, "state")
        with pytest.raises(MissingInputError, match=r"depend on y, and the inputs are x"):
            jaxify([x], x, updates={state: y})
        np.testing.assert_allclose(jaxify([x], x + y, givens={y: np.ones(3)})(X), X + 1)
        np.testing.assert_allclose(jaxify([x], x + y, givens=[(y, 2 * x)])(X), 3 * X)

    def test_what_is_no_variable(self) -> None:
        x = pt.dvector("x")
        with pytest.raises(TypeError, match=r"outputs\['b'\] is no variable: 1.0"):
            jaxify([x], {"a": x, "b": 1.0})
        with pytest.raises(TypeError, match=r"inputs\[1\] is no variable"):
            jaxify([x, 3], x)

    def test_modes(self) -> None:
        x = pt.dvector("x")
        with pytest.raises(TypeError, match="jaxify needs mode 'JAXSELECTIVE'"):
            jaxify([x], x, mode="JAX")
        with pytest.raises(TypeError, match="not both"):
            jaxify([x], x, mode=JAXLinker(), host_ops="error")
        with pytest.raises(UntranspilableOpError):
            jaxify([x], black_box(sort_down)(x), host_ops="error")
        with pytest.raises(NotJittableError):
            jaxify([x], pt.unique(x), mode=JAXLinker(jit=True))

    def test_the_number_of_arguments(self) -> None:
        x, total = pt.dvector("x"), pytensor.shared(np.zeros(()), "total")
        fn = jaxify([x], x + total, name="model")
        with pytest.raises(TypeError, match=r"model takes 1 inputs .* \(x, total\), found 1 and 0"):
            fn(X)


def quadratic() -> PureFunction:
    x = pt.dvector("x")
    return jaxify([x], (pt.exp(x) * x[::-1]).sum())


def by_hand(x: Any) -> Any:
    return (jnp.exp(x) * x[::-1]).sum()


TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda fn: jax.jit(fn)(X),
    "grad": lambda fn: jax.grad(fn)(X),
    "jit_of_grad": lambda fn: jax.jit(jax.grad(fn))(X),
    "value_and_grad": lambda fn: jax.value_and_grad(fn)(X),
    "jvp": lambda fn: jax.jvp(fn, (X,), (X,)),
    "vjp": lambda fn: jax.vjp(fn, X)[1](1.0),
    "linearize": lambda fn: jax.linearize(fn, X)[1](X),
    "hessian": lambda fn: jax.hessian(fn)(X),
    "vmap": lambda fn: jax.vmap(fn)(BATCH),
    "vmap_of_grad": lambda fn: jax.jit(jax.vmap(jax.grad(fn)))(BATCH),
    "scan": lambda fn: jax.lax.scan(lambda carry, x: (carry + fn(x), fn(x)), 0.0, BATCH),
    "grad_of_scan": lambda fn: jax.grad(
        lambda xs: jax.lax.scan(lambda carry, x: (carry + fn(x), None), 0.0, xs)[0]
    )(BATCH),
    "checkpoint": lambda fn: jax.grad(jax.checkpoint(fn))(X),
    "export": lambda fn: jax.export.export(jax.jit(fn))(jnp.asarray(X)).call(X),
    "map": lambda fn: jax.lax.map(fn, BATCH),
}


@pytest.mark.parametrize("jitted", [False, True])
def test_arguments_of_other_types(jitted: bool) -> None:
    """PyTensor refuses them too; a sum over all entries would have a value for a matrix."""
    x, y, n = pt.dvector("x"), pt.tensor("y", dtype="float64", shape=(None, 3)), pt.lscalar("n")
    fn = jaxify([{"x": x}, y, n], x.sum() + y.sum() + n)
    call = jax.jit(fn) if jitted else fn
    good = np.ones(2), np.ones((2, 3)), 1
    assert call({"x": good[0]}, *good[1:]) == 9
    assert call({"x": good[0].astype("float32")}, good[1].astype(int), np.int8(1)) == 9
    cases = [
        (0, np.ones((2, 3)), r"x: expected .*, found an array of shape \(2, 3\)"),
        (1, np.ones((2, 4)), r"y: expected .*, found an array of shape \(2, 4\)"),
        (2, 1j, "n: expected .*, found complex numbers"),
        (2, 2.5, "n: expected .*, found real numbers"),
    ]
    if jitted:
        cases += [(2, 2.0, "n: expected .*, found real numbers")]
    else:
        cases += [(0, 2.0, r"x: expected .*, found a builtins\.float")]
    for position, bad, text in cases:
        values: list[Any] = [bad if k == position else value for k, value in enumerate(good)]
        with pytest.raises(TypeError, match=text + r" \[PJL406\]"):
            call({"x": values[0]}, *values[1:])
    assert jaxify([x, y], x.sum())(good[0], None) == 2


@pytest.mark.parametrize(
    ("dtype", "good", "bad", "bad_for_a_tracer"),
    [
        ("bool", [True, 1, 0.0], [2, -1, 0.5, np.nan], [1, 0.0]),
        ("int8", [True, 127, -2.0], [128, np.uint8(200), 0.5, np.inf], [-2.0]),
        ("uint8", [False, 255, 3.0], [-1, 256, 2.5], [3.0]),
        ("int64", [2**40, 2.0, np.float32(3)], [1e300, 0.1, np.nan], [2.0]),
    ],
)
def test_numbers_that_an_input_does_not_hold(
    dtype: str, good: list[Any], bad: list[Any], bad_for_a_tracer: list[Any]
) -> None:
    """Rounded to a precision they may be; a wrapped integer, or a cut real, is another number."""
    x = pt.tensor("x", dtype=dtype, shape=())
    fn = jaxify([x], x)
    with jax.enable_x64(True):
        for value in good:
            assert fn(value) == value
            assert fn(jnp.asarray(value)) == value
        for value in bad:
            for given in (value, jnp.asarray(value), np.asarray(value)):
                with pytest.raises(TypeError, match=r"x: expected .*, found (real|integers)"):
                    fn(given)
        for value in bad_for_a_tracer:
            with pytest.raises(TypeError, match=r"x: expected .*, found (real|integers)"):
                jax.jit(fn)(value)
    for text in ("2", None, np.datetime64("2026-11-23")):
        with pytest.raises(TypeError, match=r"x: expected .*, found a .* \[PJL406\]"):
            fn(text)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations(name: str) -> None:
    transform, fn = TRANSFORMATIONS[name], quadratic()
    with jax.checking_leaks():
        found = transform(fn)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-12),
        found,
        transform(by_hand),
    )


def test_jax_knows_its_name() -> None:
    x = pt.dvector("x")
    fn = jaxify([x], x * 2, name="double")
    assert "jit_double" in jax.jit(fn).lower(X).as_text()
    assert repr(fn) == "<double(x) -> (outputs)>"


class TestState:
    def setup_method(self) -> None:
        self.x = pt.dscalar("x")
        self.total = pytensor.shared(np.zeros(()), "total")
        self.scale = pytensor.shared(np.full((), 2.0), "scale")
        self.fn = jaxify(
            [self.x], self.total * self.scale, updates={self.total: self.total + self.x}
        )

    def test_in_and_out(self) -> None:
        state = self.fn.initial_state()
        out, new = jax.jit(self.fn)(3.0, *state)
        assert {*self.fn.shared} == {self.total, self.scale}
        assert float(out) == 0.0
        found = dict(zip(self.fn.input_names[1:], map(float, new), strict=True))
        assert found == {"total": 3.0, "scale": 2.0}
        assert float(self.total.get_value()) == 0.0
        self.fn.store(new)
        assert float(self.total.get_value()) == 3.0
        assert type(self.total.get_value()) in (np.ndarray, np.float64)

    def test_in_a_scan(self) -> None:
        def step(state: Any, x: Any) -> Any:
            out, state = self.fn.with_state(state, x)
            return state, out

        with jax.checking_leaks():
            _, found = jax.jit(lambda xs: jax.lax.scan(step, self.fn.initial_state(), xs))(X)
        np.testing.assert_allclose(found, [0.0, 2.0, 6.0])

    def test_gradient_with_state_aside(self) -> None:
        fn = jaxify([self.x], self.x * self.scale, updates={self.scale: self.scale + 1})
        slope, [scale] = jax.grad(fn, has_aux=True)(1.0, *fn.initial_state())
        assert (float(slope), float(scale)) == (2.0, 3.0)

    def test_donation(self) -> None:
        assert self.fn.donate_argnums == (1 + self.fn.shared.index(self.total),)
        x = pt.dvector("x")
        fn = jaxify([{"x": x}, self.x], x + self.x, donate="all")
        assert fn.donate_argnums == (0, 1)
        assert jaxify([x], x, donate="none").donate_argnums == ()

    def test_no_state(self) -> None:
        fn = jaxify([self.x], self.x + 1)
        assert fn.shared == fn.initial_state() == ()
        out, state = fn.with_state((), 1.0)
        assert (float(out), state) == (2.0, ())

    def test_a_generator(self) -> None:
        rng = pytensor.shared(np.random.default_rng(3), "rng")
        after, draw = pt.random.normal(0, 1, size=(2,), rng=rng).owner.outputs
        fn = jaxify([], draw, updates={rng: after})

        def step(state: Any, _: Any) -> Any:
            out, state = fn.with_state(state)
            return state, out

        state, found = jax.lax.scan(step, fn.initial_state(), length=3)
        f = pytensor.function([], draw, updates={rng: after}, mode="JAXSELECTIVE")
        np.testing.assert_allclose(found[:2], [f(), f()])
        fn.store(state)
        assert isinstance(fn.shared[0].get_value(), np.random.Generator)
        np.testing.assert_allclose(f(), fn(*state)[0])


class TestSizes:
    def test_static_arguments(self) -> None:
        x, (n, m, unused) = pt.dvector("x"), pt.lscalars("n", "m", "unused")
        fn = jaxify([(n, m), {"x": x}, unused], x.reshape((n, m)))
        assert fn.static_argnums == (0,)
        jitted = jax.jit(fn, static_argnums=fn.static_argnums)
        assert jitted((3, 1), {"x": X}, 0).shape == (3, 1)
        with pytest.raises(NotJittableError, match=r"JAX traces n, m, .*static_argnums"):
            jax.jit(fn)((3, 1), {"x": X}, 0)

    @pytest.mark.parametrize("among", ["arrays", "list"])
    def test_sizes_that_cannot_be_static(self, among: str) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        inputs = [(x, n)] if among == "arrays" else [x, [n]]
        fn = jaxify(inputs, x[:n])
        with pytest.raises(NotJittableError, match="holds n, which must be static"):
            fn.static_argnums  # noqa: B018 -- a property

    def test_shared_size(self) -> None:
        x, n = pt.dvector("x"), pytensor.shared(np.int64(2), "n")
        fn = jaxify([x], pt.exp(x).reshape((n, -1)))
        assert fn.static_argnums == (1,)
        assert fn.initial_state() == (2,)
        jitted = jax.jit(fn, static_argnums=fn.static_argnums)
        assert jitted(np.ones(6), *fn.initial_state()).shape == (2, 3)

    def test_gradient_beside_a_size(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        fn = jaxify([x, n], (x[:n] ** 2).sum())
        np.testing.assert_allclose(jax.grad(fn)(X, 2), [2.0, 4.0, 0.0])

    @pytest.mark.parametrize("number", [1, 3])
    def test_gradient_of_the_side_that_a_size_takes(self, number: int) -> None:
        """``linspace`` divides by ``n - 1``, but not where n is 1."""
        end, n = pt.dscalar("end"), pt.lscalar("n")
        fn = jaxify([end, n], pt.linspace(0, end, n).sum())
        assert fn.static_argnums == (1,)
        expected = {1: 0.0, 3: 1.5}[number]
        assert jax.grad(fn)(0.5, number) == expected
        assert jax.grad(jax.jit(fn, static_argnums=1))(0.5, number) == expected
        either = jaxify([end, n], pt.switch(pt.eq(pt.zeros(n).shape[0], 1), end * 2, end / (n - 1)))
        assert jax.grad(either)(0.5, number) == {1: 2.0, 3: 0.5}[number]


class TestBreaks:
    def test_explained_where_jax_traces_and_run_where_it_does_not(self) -> None:
        x = pt.dvector("x")
        fn = jaxify([x], pt.unique(pt.exp(x)) * 2)
        np.testing.assert_allclose(fn(np.zeros(3)), [2.0])
        assert fn.explain().graph_break_count == 1
        for transform in (jax.jit, jax.jacfwd, jax.vmap):
            with pytest.raises(NotJittableError, match=r"in the way") as caught:
                transform(fn)(BATCH if transform is jax.vmap else X)
            assert "test_jaxify.py" in str(caught.value)
            assert "1. unique(exp(x)) at " in str(caught.value)

    def test_an_op_without_a_rule(self) -> None:
        x = pt.dvector("x")
        fn = jaxify([x], black_box(sort_down)(x))
        np.testing.assert_allclose(fn(X), X[::-1])
        with pytest.raises(UntranspilableOpError):
            jax.jit(fn)(X)

    def test_a_loop_of_the_host_whose_body_gives_traced_values(self) -> None:
        """`jax.vmap` wraps what a `custom_jvp` makes, even of values that are not batched."""

        def slope(inputs: Any, _: Any, given: Any) -> list[Any]:
            return [inputs[0] * given[0]]

        v, x = pt.dvector(), pt.dvector("x")
        op = OpFromGraph([v], [black_box(sort_down)(v)], pullback=slope)
        numbers, steps = pt.lvector("numbers"), pt.lscalar("steps")
        start = pt.cast(numbers, "float64")
        states = pytensor.scan(
            lambda v: op(v) * 0.5, outputs_info=[start], n_steps=steps % 3 + 2, return_updates=False
        )
        fn = jaxify([x, numbers, steps], [x, pt.grad(states[-1].sum(), start)])
        with pytest.raises(NotJittableError, match="in the way"):
            jax.vmap(fn, (0, None, None))(BATCH, np.arange(200), 2)


def test_nothing_global_changes() -> None:
    quadratic()  # PyTensor's rules set `jax_enable_x64` when they are imported

    def everything() -> list[Any]:
        return [
            {**jax.config.values},
            *[{**table} for table in (predefined_modes, predefined_linkers)],
            {**jax_funcify.registry},
            pytensor.config.mode,
            pytensor.config.floatX,
        ]

    before = everything()
    state = pytensor.shared(np.zeros(3), "state")
    x = pt.dvector("x")
    fn = jaxify([x], (x * state).sum(), updates={state: state + x})
    jax.jit(jax.grad(fn, has_aux=True))(X, *fn.initial_state())
    assert everything() == before
    np.testing.assert_array_equal(state.get_value(), np.zeros(3))


# -- gradients agree with PyTensor's -----------------------------------------------------------


def check_gradient(
    inputs: list[Any], output: Any, values: list[np.ndarray], tolerance: float = 1e-7
) -> int:
    """Compare what is finite in PyTensor's gradient; how many entries that were."""
    cost, slopes = output.sum(), dict[int, Any]()
    for position, variable in enumerate(inputs):
        try:
            slopes[position] = pytensor.grad(cost, variable, disconnected_inputs="ignore")
        except NullTypeGradError:
            continue  # PyTensor has no gradient with respect to this argument
        except MethodNotDefined:
            pytest.skip("this version of PyTensor has no gradient")
    reference = pytensor.function(inputs, [*slopes.values()], mode=PYTHON, on_unused_input="ignore")
    with np.errstate(all="ignore"):
        expected = reference(*values)
    derived = quickly(jax.grad(jaxify(inputs, cost), argnums=tuple(slopes)), *values)
    compared = 0
    for one, other in zip(derived, expected, strict=True):
        finite = np.isfinite(other)
        np.testing.assert_allclose(np.asarray(one)[finite], other[finite], tolerance, 1e-9)
        compared += int(finite.sum())
    return compared


def _scalar_ops() -> dict[str, Any]:
    """The scalar Ops that have a JAX function and make floats of floats."""
    found: dict[Any, str] = {}
    for module in (scalar_basic, scalar_math):
        for name, op in vars(module).items():
            if isinstance(op, ScalarOp) and answer(type(op)) == JITTABLE:
                found.setdefault(op, name)
    left_out = NO_GRADIENT | ELSEWHERE
    return {name: op for op, name in found.items() if name not in left_out and _is_float(op)}


def _is_float(op: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = op(*[scalar_basic.float64() for _ in range(_arity(op))])
    except (TypeError, NotImplementedError):
        return False
    return not isinstance(outputs, list) and outputs.type.dtype == "float64"


def _arity(op: Any) -> int:
    return op.nin if op.nin > 0 else 3


# PyTensor's own raises for real arguments; `clip` has none where its limits are swapped,
# and is among the expressions below.
NO_GRADIENT = {"real", "imag", "conj", "clip"}
# `tests/lowering/test_special.py` compares their gradients; together they take minutes to compile.
ELSEWHERE = {"betaincinv", "gammaincinv", "gammainccinv", "hyp2f1", "ive", "jv", "kve"}
# Both are sums of series with respect to the first arguments, cut at different places; the second
# differs under PyTensor 3.0 and JAX 0.10 only.
LOOSE = {"betainc": 1e-6, "gammaincc": 1e-3}
POINTS = np.array([-2.3, -0.42, 0.37, 0.81, 1.9, 6.2])


@pytest.mark.parametrize("name", _scalar_ops())
def test_gradient_of_elementwise(name: str) -> None:
    op = _scalar_ops()[name]
    inputs = [pt.dvector(f"x{k}") for k in range(_arity(op))]
    output = Elemwise(op)(*inputs)
    points = np.meshgrid(*[POINTS + 0.013 * k for k in range(len(inputs))])
    values = [each.ravel() for each in points]
    fn = jaxify(inputs, output)
    if fn.explain().breaks:
        pytest.skip("this version of JAX, or of PyTensor's rules, has no function")
    inside = np.isfinite(fn(*values))
    tolerance = LOOSE.get(name, 1e-7)
    assert check_gradient(inputs, output, [value[inside] for value in values], tolerance)


RNG = np.random.default_rng(1)
VECTOR = RNG.permutation(np.linspace(-1.4, 1.9, 6))
MATRIX = RNG.normal(size=(3, 3)) + 3 * np.eye(3)


def spd(a: Any) -> Any:
    return a @ a.T + pt.eye(3)


EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, a: a.sum(axis=0),
    "prod": lambda x, a: a.prod(axis=1),
    "mean": lambda x, a: a.mean(axis=0) ** 2,
    "max": lambda x, a: a.max(axis=1),
    "min": lambda x, a: a.min(axis=0),
    "var": lambda x, a: a.var(axis=0),
    "std": lambda x, a: x.std(),
    "ptp": lambda x, a: pt.ptp(x),
    "norm": lambda x, a: pt.linalg.norm(a),
    "logsumexp": lambda x, a: pt.logsumexp(a, axis=1),
    "softmax": lambda x, a: pt.special.softmax(a, axis=0) ** 2,
    "log_softmax": lambda x, a: pt.special.log_softmax(x) ** 2,
    "cumsum": lambda x, a: pt.cumsum(x) ** 2,
    "cumprod": lambda x, a: pt.cumprod(x),
    "sort": lambda x, a: pt.sort(x) * pt.arange(6),
    "diff": lambda x, a: pt.diff(x) ** 3,
    "dot": lambda x, a: a @ a[0],
    "matmul": lambda x, a: a @ a,
    "outer": lambda x, a: pt.outer(x, x),
    "tensordot": lambda x, a: pt.tensordot(a, a, axes=2),
    "einsum": lambda x, a: pt.einsum("ij,kj->ik", a, a) ** 2,
    "kron": lambda x, a: pt.linalg.kron(a, a),
    "batched_matmul": lambda x, a: pt.stack([a, a]) @ pt.stack([a, a.T]),
    "index": lambda x, a: x[2] * a[1],
    "slice": lambda x, a: x[1:5:2] ** 2,
    "take": lambda x, a: x[pt.constant([0, 0, 3])] ** 2,
    "set": lambda x, a: pt.set_subtensor(x[:2], x[3:5] * 2) ** 2,
    "inc": lambda x, a: pt.inc_subtensor(x[pt.constant([1, 1])], x[4]) ** 2,
    "masked_sum": lambda x, a: x[x > 0].sum() ** 2,
    "where": lambda x, a: pt.where(x > 0, x**3, -x),
    "clip": lambda x, a: pt.clip(x, -1, 1) ** 2,
    "concatenate": lambda x, a: pt.concatenate([x, x**2]),
    "reshape": lambda x, a: x.reshape((2, 3)) @ a,
    "transpose": lambda x, a: a.T @ a**2,
    "repeat": lambda x, a: pt.repeat(x, 2) ** 2,
    "roll": lambda x, a: pt.roll(x, 2) * x,
    "diagonal": lambda x, a: pt.diagonal(a) ** 2,
    "diag": lambda x, a: pt.diag(x) @ x,
    "trace": lambda x, a: pt.diagonal(a).sum() ** 2,
    "tril": lambda x, a: pt.tril(a) ** 2,
    "inverse": lambda x, a: pt.linalg.inv(a),
    "pinv": lambda x, a: pt.linalg.pinv(a),
    "det": lambda x, a: pt.linalg.det(a),
    "slogdet": lambda x, a: pt.linalg.slogdet(a)[1],
    "cholesky": lambda x, a: pt.linalg.cholesky(spd(a)),
    "solve": lambda x, a: pt.linalg.solve(a, x[:3]),
    "solve_spd": lambda x, a: pt.linalg.solve(spd(a), x[:3], assume_a="pos"),
    "solve_triangular": lambda x, a: pt.linalg.solve_triangular(a, x[:3], lower=True),
    "cho_solve": lambda x, a: pt.linalg.cho_solve((pt.linalg.cholesky(spd(a)), True), x[:3]),
    "eigh": lambda x, a: pt.linalg.eigh(spd(a))[0] ** 2,
    "svd": lambda x, a: pt.linalg.svd(a, compute_uv=False),
    "qr": lambda x, a: pt.linalg.qr(a)[1] ** 2,
    "expm": lambda x, a: pt.linalg.expm(a / 3),
    "matrix_power": lambda x, a: pt.linalg.matrix_power(a, 3),
    "scan": lambda x, a: pytensor.scan(
        lambda xt, s: pt.tanh(s + xt), sequences=[x], outputs_info=[x[0]], return_updates=False
    ),
    "convolve": lambda x, a: pt.signal.convolve1d(x, a[0], mode="full") ** 2,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradient_and_vmap_of_expressions(name: str) -> None:
    x, a = pt.dvector("x", shape=(6,)), pt.dmatrix("a", shape=(3, 3))
    output = EXPRESSIONS[name](x, a)
    assert check_gradient([x, a], output, [VECTOR, MATRIX])
    fn = jaxify([x, a], output)
    vectors, matrices = [np.stack([v, v[::-1] * 1.1, v * 0.7]) for v in (VECTOR, MATRIX)]
    found = jax.jit(jax.vmap(fn))(vectors, matrices)
    for k in range(3):
        np.testing.assert_allclose(found[k], fn(vectors[k], matrices[k]), rtol=1e-9, atol=1e-11)


def test_a_sparse_state_is_stored() -> None:
    matrix = pytensor.shared(scipy.sparse.csr_matrix(np.eye(3)), "matrix")
    factor = pt.dscalar("factor")
    out = structured_dot(matrix, pt.eye(3)).sum() * factor
    function = jaxify([factor], out, updates={matrix: matrix * 2})
    found, state = function(2.0, *function.initial_state())
    assert found == 6.0
    function.store(state)
    np.testing.assert_array_equal(matrix.get_value().toarray(), 2 * np.eye(3))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.ones(2), r"an array of float64, of shape \(2,\)"),
        (np.arange(2), "an array of int64"),
        (np.zeros(4, "uint32"), r"an array of uint32, of shape \(4,\)"),
        (np.zeros((2, 2), "uint32"), r"an array of uint32, of shape \(2, 2\)"),
        (jax.random.split(jax.random.key(0)), "an array of key<fry>"),
        (jax.random.key(0, impl="rbg"), "an array of key<rbg>"),
        (None, "a builtins.NoneType"),
    ],
    ids=str,
)
@pytest.mark.parametrize("wrap", [lambda function: function, jax.jit], ids=["as it is", "jit"])
def test_a_generator_is_no_other_array(value: Any, found: str, wrap: Any) -> None:
    x, state = pt.dvector("x"), pytensor.shared(np.random.default_rng(0), name="state")
    after, draws = pt.random.normal(rng=state, size=2).owner.outputs
    fn = jaxify([x], draws + x, updates={state: after})
    with pytest.raises(TypeError, match=rf"state: expected a .* found {found}.*PJL406"):
        wrap(fn)(np.ones(2), value)


@pytest.mark.parametrize(
    ("graph", "named"),
    [
        (lambda x, n: x[x > 1], r"1\. x\[x > 1\] at .*PJL111"),
        (lambda x, n: pt.unique(x)[:n], r"1\. unique\(x\) at .*PJL111"),
        (lambda x, n: black_box(np.sort)(x), r"1\. .*\(x\) at .*PJL102"),
    ],
    ids=["a mask", "with a size", "a black box"],
)
def test_the_break_that_stops_a_trace_is_named(graph: Any, named: str) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f: Any = pytensor.function([x, n], graph(x, n), mode="JAXSELECTIVE", on_unused_input="ignore")
    rows = jax.vmap(f.jax_fn, in_axes=(0, None))
    for call in (jax.jit(f.jax_fn), jax.jit(f), lambda x, n: rows(x[None], n)):
        with pytest.raises(NotJittableError, match=rf"(?s){named}"):
            call(np.ones(3), 2)
