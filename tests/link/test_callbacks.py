"""`host_ops="callback"`: nodes that JAX cannot run and calls from inside a region."""

from __future__ import annotations

import re
import threading
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import grad_undefined
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.scalar.basic import UnaryScalarOp, float64
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise

from pytensor_jaxlink import (
    BrokenShapeError,
    JAXLinker,
    JAXLinkError,
    NotDifferentiableError,
    NotJittableError,
    inspect,
    jaxify,
    load,
    save,
)
from pytensor_jaxlink.compat import ifelse
from pytensor_jaxlink.remedies import Remedy
from tests.edges.known import OLD
from tests.helpers import (
    PYTHON,
    assert_same,
    black_box,
    check_against_python,
    compile_both,
    sort_down,
)

CALLBACK = JAXLinker(host_ops="callback")
X = np.array([0.3, -0.2, 0.5])


def as_op(function: Any, takes: list[Any], gives: list[Any], infer_shape: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTensor 3.3 has another name for as_op
        from pytensor.compile.ops import as_op

        return as_op(takes, gives, infer_shape)(function)


def shape_of_first(*arguments: Any) -> list[Any]:
    """The `infer_shape` of Ops whose outputs are as long as the first input, for any PyTensor."""
    return [arguments[-1][0]]


def elementwise(function: Any, kind: Any = pt.dvector) -> Any:
    return as_op(function, [kind], [kind], shape_of_first)


class Likelihood(Op):
    """The log density of a normal distribution: unknown are its mean and log precision."""

    __props__ = ()

    def __init__(self) -> None:
        self.calls: list[str] = []

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, list(map(pt.as_tensor_variable, inputs)), [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        (mean, precision), data = inputs
        self.calls.append(threading.current_thread().name)
        value = -0.5 * ((mean - data) ** 2).sum() * np.exp(precision)
        output_storage[0][0] = np.asarray(value + len(data) * precision / 2)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        undefined = grad_undefined(self, 1, inputs[1], "nobody needs it")
        return [cotangents[0] * LikelihoodGradient()(*inputs), undefined]


class LikelihoodGradient(Op):
    """Its gradient; nothing says that it is as long as the parameters."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, list(map(pt.as_tensor_variable, inputs)), [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        (mean, precision), data = inputs
        scale = np.exp(precision)
        output_storage[0][0] = np.array(
            [
                (data - mean).sum() * scale,
                -0.5 * ((mean - data) ** 2).sum() * scale + len(data) / 2,
            ]
        )

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        (theta, data), [ct] = inputs, cotangents
        scale, rest = pt.exp(theta[1]), data - theta[0]
        slope, curve = rest.sum() * scale, -0.5 * (rest**2).sum() * scale
        first = -data.shape[0] * scale * ct[0] + slope * ct[1]
        undefined = grad_undefined(self, 1, data, "nobody needs it")
        return [pt.stack([first, slope * ct[0] + curve * ct[1]]), undefined]


def likelihood() -> tuple[Any, list[Any], Any]:
    theta, data = pt.dvector("theta"), pt.dvector("data")
    op = Likelihood()
    return op, [theta, data], op(theta, data) - (theta**2).sum()


THETA, DATA = np.array([0.3, 0.2]), np.arange(5.0)


class TestValues:
    def test_one_region(self) -> None:
        x = pt.dvector("x")
        f = check_against_python([x], elementwise(sort_down)(pt.exp(x)) * 2, [X], [X[:0]], [X[:1]])
        assert f.explain().graph_break_count == 1  # "split" is the default
        g = pytensor.function([x], elementwise(sort_down)(pt.exp(x)) * 2, mode=CALLBACK)
        for value in (X, X[:0], X[:1]):
            assert_same(g(value), f(value))
        assert (g.explain().graph_count, g.explain().graph_break_count) == (1, 0)
        assert g.stats.host_steps == 0

    @pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "uint8"])
    def test_dtypes(self, dtype: str) -> None:
        x = pt.TensorType(dtype, shape=(None,))("x")
        op = elementwise(lambda values: values[::-1].copy(), x.type)
        f = pytensor.function([x], op(x), mode=CALLBACK)
        assert_same(f(np.array([1, 0, 1], dtype)), np.array([1, 0, 1], dtype))

    def test_several_outputs_and_sizes(self) -> None:
        def parts(values: np.ndarray, count: np.ndarray) -> Any:
            return np.asarray(values.sum()), np.int8(3), float(count), values > 0

        x, n = pt.dvector("x"), pt.lscalar("n")
        op = as_op(
            parts,
            [pt.dvector, pt.lscalar],
            [pt.dscalar, pt.bscalar, pt.fscalar, pt.TensorType("bool", shape=(3,))],
        )
        f = pytensor.function([x, n], op(x, n), mode=JAXLinker(True, host_ops="callback"))
        expected = [np.float64(X.sum()), np.int8(3), np.float32(4), X > 0]
        assert_same(f(X, 4), list(map(np.asarray, expected)))

    def test_a_shape_that_follows_from_a_size(self) -> None:
        def repeated(*arguments: Any) -> list[Any]:
            node = arguments[-2]
            return [(node.inputs[1] * 2,)]

        def repeat(values: np.ndarray, count: np.ndarray) -> np.ndarray:
            return np.resize(values, 2 * int(count))

        x, n = pt.dvector("x"), pt.lscalar("n")
        op = as_op(repeat, [pt.dvector, pt.lscalar], [pt.dvector], repeated)
        f = pytensor.function([x, n], op(x, n + 1) + 1, mode=CALLBACK)
        assert f.explain().graph_break_count == 0
        assert f.explain().static_inputs == ("n",)
        assert_same(f(X, 1), np.resize(X, 4) + 1)
        # Where the size is computed from data it is fetched.
        g = pytensor.function([x], op(x, pt.argmax(x)), mode=CALLBACK)
        assert [each.kind for each in g.explain().breaks] == ["size computed from data"]
        assert_same(g(X), np.resize(X, 4))

    def test_a_size_from_a_black_box(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        half = as_op(lambda count: np.asarray(count // 2), [pt.lscalar], [pt.lscalar])
        outputs = [
            x[: half(n)] * 2,
            pt.zeros(half(x.shape[0]) + 1),
            half(pt.constant(4, dtype="int64")) + n,
        ]
        f, g = compile_both([x, n], outputs, CALLBACK)
        assert_same(f(X, 4), g(X, 4))
        assert_same(f(X[:2], 2), g(X[:2], 2))

    def test_in_loops_and_branches(self) -> None:
        x, rows = pt.dvector("x"), pt.dmatrix("rows")
        op = elementwise(sort_down)
        loop = pytensor.scan(
            lambda row, state: state + op(row * state), [rows], [x], return_updates=False
        )
        f = pytensor.function([x, rows], loop, mode=CALLBACK)
        values = np.arange(12.0).reshape(4, 3) / 10
        assert_same(f(X, values), pytensor.function([x, rows], loop, mode=PYTHON)(X, values))
        branch = ifelse(x.sum() > 0, op(x), op(x) * 2)
        g = pytensor.function([x], branch, mode=CALLBACK)
        assert_same(g(X), sort_down(X))
        assert_same(g(-X), sort_down(-X) * 2)
        for each in (f, g):
            assert each.explain().graph_break_count == 0
            assert each.explain().callbacks
            assert each.stats.host_steps == 0

    def test_many_threads_one_call_at_a_time(self) -> None:
        inside: list[int] = []
        most: list[int] = []

        def watch(values: np.ndarray) -> np.ndarray:
            inside.append(1)
            most.append(len(inside))
            result = np.sort(values)
            inside.pop()
            return result

        x = pt.dvector("x")
        op = elementwise(watch)
        functions = [pytensor.function([x], op(x * k) + 1, mode=CALLBACK) for k in (1, 2)]
        wrong: list[Any] = []

        def work(number: int) -> None:
            values = np.arange(1e4)[::-1] * number
            for _ in range(5):
                if not np.array_equal(functions[0](values), values[::-1] + 1):
                    wrong.append(number)
                if not np.array_equal(functions[1](values), 2 * values[::-1] + 1):
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert max(most) == 1


class TestUnknownShapes:
    REASON = "sort_down has no infer_shape"

    def test_a_break_or_an_error(self) -> None:
        x = pt.dvector("x")
        y = black_box(sort_down)(x) + 1
        f = pytensor.function([x], y, mode=CALLBACK)
        [cut] = f.explain().breaks
        assert cut.reason.endswith(f"; and it cannot be a callback: {self.REASON}")
        assert cut.remedy.startswith(Remedy.INFER_SHAPE_OF_FUNCTION.text())
        assert_same(f(X), sort_down(X) + 1)
        with pytest.raises(NotJittableError, match=self.REASON) as caught:
            pytensor.function([x], y, mode=JAXLinker(True, host_ops="callback"))
        assert f"{Path(__file__).name}:" in str(caught.value)
        with pytest.raises(NotJittableError, match=self.REASON):
            jax.jit(jaxify([x], y, host_ops="callback"))(X)

    def test_data_tell_the_shape(self) -> None:
        def kept(*arguments: Any) -> list[Any]:
            node = arguments[-2]
            return [(node.inputs[0].sum().astype("int64"),)]

        x = pt.dvector("x")
        op = as_op(lambda v: np.zeros(int(v.sum())), [pt.dvector], [pt.dvector], kept)
        f = pytensor.function([x], op(x), mode=CALLBACK)
        [cut] = f.explain().breaks
        assert cut.reason.endswith("its output shape depends on the values of x")
        assert_same(f(np.ones(3)), np.zeros(3))

    def test_draws_stay_breaks(self) -> None:
        rng = pytensor.shared(np.random.default_rng(1), "rng")
        draws = pt.random.hypergeometric(5, 4, 3, size=(2,), rng=rng)
        f = pytensor.function([], draws, mode=CALLBACK)
        assert not f.explain().callbacks
        assert f().shape == (2,)


class TestFailures:
    @pytest.mark.parametrize("options", [{}, {"jit": True}, {"jit": False}, {"checks": "ignore"}])
    def test_the_exception_of_the_op(self, options: dict[str, Any]) -> None:
        def refuse(values: np.ndarray) -> np.ndarray:
            if (values > 5).any():
                raise KeyError("too large")
            return -values

        x = pt.dvector("x")
        f = pytensor.function(
            [x], elementwise(refuse)(x) * 2, mode=JAXLinker(host_ops="callback", **options)
        )
        assert_same(f(X), -2 * X)
        with pytest.raises(KeyError, match="too large"):
            f(X + 9)
        assert_same(f(X), -2 * X)

    def test_states_are_kept(self) -> None:
        def refuse(values: np.ndarray) -> np.ndarray:
            if (values > 5).any():
                raise KeyError("too large")
            return values + 1

        state = pytensor.shared(np.zeros(1 << 17), "state")
        x = pt.dscalar("x")
        f = pytensor.function(
            [x], [], updates={state: elementwise(refuse)(state) + x}, mode=CALLBACK
        )
        f(3.0)
        f(3.0)
        assert f.stats.donated_bytes == 8 << 17
        with pytest.raises(KeyError, match="too large"):
            f(0.0)
        assert_same(state.get_value()[:2], np.array([8.0, 8.0]))

    def test_what_the_user_traces(self) -> None:
        def refuse(values: np.ndarray) -> np.ndarray:
            raise KeyError("too large")

        x = pt.dvector("x")
        fn = jaxify([x], elementwise(refuse)(x), host_ops="callback")
        with pytest.raises(jax.errors.JaxRuntimeError, match="KeyError: 'too large'"):
            jax.block_until_ready(jax.jit(fn)(X))

    @pytest.mark.parametrize(
        ("function", "found"),
        [(lambda v: v[:-1], "float64[2]"), (lambda v: v.astype("float32"), "float32[3]")],
    )
    def test_a_broken_promise(self, function: Any, found: str) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], elementwise(function)(x) * 2, mode=CALLBACK)
        message = (
            f"returned {found} as output 0, and float64[3] was promised by its infer_shape and the "
            "types of its outputs, before JAX called it. Correct its infer_shape or the types of "
            'its outputs, or give the function host_ops="split", which promises nothing.'
        )
        with pytest.raises(BrokenShapeError, match=re.escape(message)) as caught:
            f(X)
        assert str(caught.value).startswith("<lambda>, written at ")
        fn = jaxify([x], elementwise(function)(x), host_ops="callback")
        with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(message)):
            jax.block_until_ready(jax.jit(fn)(X))

    def test_a_broken_promise_is_told_once(self) -> None:
        x = pt.dvector("x")
        start = pt.cast(x[0], "int64")
        cut = elementwise(lambda v: v[:-1] if v[0] < 0 else v)
        f = pytensor.function([x], cut(x).sum() + x[start : start + 2].sum(), mode=CALLBACK)
        with pytest.raises(BrokenShapeError):
            f(np.array([-1.0, 0, 0]))
        # A slice that reaches beyond the array is finished by PyTensor's own implementation.
        assert float(f(np.array([2.0, 0, 5]))) == 12
        assert f.stats.fallbacks == 2


class TestDerivatives:
    def test_the_gradient_of_the_op(self) -> None:
        op, inputs, logp = likelihood()
        fn = jaxify(inputs, logp, host_ops="callback")
        expected = pytensor.function(inputs, [logp, pytensor.grad(logp, inputs[0])], mode=PYTHON)
        op.calls.clear()
        value, slope = jax.jit(jax.value_and_grad(fn))(THETA, DATA)
        assert_same([value, slope], expected(THETA, DATA))
        jax.block_until_ready(slope)
        assert len(op.calls) == 2  # one is of `expected`

    def test_second_derivatives(self) -> None:
        _, inputs, logp = likelihood()
        fn = jaxify(inputs, logp, host_ops="callback")
        expected = pytensor.function(
            inputs, pytensor.gradient.hessian(logp, inputs[0]), mode=PYTHON
        )(THETA, DATA)
        for hessian in (
            jax.hessian(fn),
            jax.jacrev(jax.jacrev(fn)),
            jax.jacfwd(jax.jacfwd(fn)),
            jax.jacrev(jax.jacfwd(fn)),
        ):
            assert_same(jax.jit(hessian)(THETA, DATA), expected)

    def test_forward(self) -> None:
        _, inputs, logp = likelihood()
        fn = jaxify(inputs, logp, host_ops="callback")
        direction = np.array([1.0, -2.0])
        _, slope = jax.jvp(lambda theta: fn(theta, DATA), (THETA,), (direction,))
        assert_same(slope, np.asarray(jax.grad(fn)(THETA, DATA)) @ direction)

    def test_batches(self) -> None:
        _, inputs, logp = likelihood()
        fn = jaxify(inputs, logp, host_ops="callback")
        batch = np.random.default_rng(1).normal(size=(4, 2))
        for each in (fn, jax.grad(fn), jax.hessian(fn)):
            found, alone = jax.jit(jax.vmap(each, (0, None)))(batch, DATA), jax.jit(each)
            assert_same(found, np.stack([alone(theta, DATA) for theta in batch]))
        many = jax.jit(jax.vmap(jax.vmap(fn, (None, 0)), (0, None)))
        twice = many(batch, np.stack([DATA, DATA + 1]))
        assert_same(twice[2, 1], np.asarray(fn(batch[2], DATA + 1)))
        assert jax.vmap(fn, (0, None))(batch[:0], DATA).shape == (0,)

    @pytest.mark.filterwarnings("ignore:Numba will use object mode")  # inside the Python loop
    def test_in_a_loop(self) -> None:
        x, rows = pt.dvector("x"), pt.dmatrix("rows")
        sine = elementwise(np.sin)
        op = OpFromGraph(
            [x], [sine(x)], pullback=lambda inputs, _, cts: [cts[0] * pt.cos(inputs[0])]
        )
        loop = pytensor.scan(
            lambda row, state: state + op(row * state), [rows], [x], return_updates=False
        )
        cost = (loop[-1] ** 2).sum()
        fn = jaxify([x, rows], cost, host_ops="callback")
        values = np.arange(12.0).reshape(4, 3) / 10
        expected = pytensor.function([x, rows], pytensor.grad(cost, [x, rows]), mode=PYTHON)
        assert_same(list(jax.jit(jax.grad(fn, (0, 1)))(X, values)), expected(X, values))
        assert_same(jax.jit(jax.jacfwd(fn))(X, values), expected(X, values)[0])

    def test_the_gradient_that_the_user_gives_an_as_op(self) -> None:
        x = pt.dvector("x")
        cube = as_op(lambda v: np.asarray((v**3).sum()), [pt.dvector], [pt.dscalar])
        slope = as_op(lambda v: 3 * v**2, [pt.dvector], [pt.dvector])
        op = OpFromGraph([x], [cube(x)], pullback=lambda i, _, cts: [cts[0] * slope(i[0])])
        fn = jaxify([x], op(2 * x), host_ops="callback")
        assert_same(jax.jit(jax.grad(fn))(X), 24 * X**2)
        assert_same(jax.vmap(jax.grad(fn))(np.stack([X, -X])), np.stack([24 * X**2] * 2))

    def test_several_outputs_of_several_types(self) -> None:
        class Parts(Op):
            __props__ = ()

            def make_node(self, *inputs: Any) -> Apply:
                return Apply(self, list(inputs), [pt.dvector(), pt.lvector(), pt.dscalar()])

            def infer_shape(self, *arguments: Any) -> list[Any]:
                first = arguments[-1][0]
                return [first, first, ()]

            def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
                x, power = inputs
                output_storage[0][0] = x**power
                output_storage[1][0] = np.sign(x).astype("int64")
                output_storage[2][0] = np.asarray((x**2).sum())

            def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
                (x, power), (powers, _, squares) = inputs, cotangents
                found = powers * power * x ** (power - 1) + 2 * squares * x
                return [found, grad_undefined(self, 1, power)]

        x, power = pt.dvector("x"), pt.lscalar("power")
        powers, signs, squares = Parts()(x, power)
        fn = jaxify([x, power], (powers * signs).sum() + squares**2, host_ops="callback")
        values = np.abs(X) + 1
        expected = 3 * values**2 + 4 * (values**2).sum() * values
        assert_same(jax.grad(fn)(values, 3), expected)
        assert_same(jax.jacfwd(fn)(values, 3), expected)

    def test_no_gradient(self) -> None:
        x = pt.dvector("x")
        fn = jaxify([x], elementwise(np.sin)(x).sum(), host_ops="callback")
        with pytest.raises(NotDifferentiableError) as caught:
            jax.grad(fn)(X)
        assert re.fullmatch(
            r"JAX differentiates sin, written at .*test_callbacks.py:\d+, with "
            r"respect to x, and PyTensor has no such gradient: .* Wrap it: "
            r"OpFromGraph\(\[x\], \[sin\(x\)\], pullback=lambda inputs, outputs, cotangents: "
            r"\[\.\.\.\]\)\. \[PJL502\]",
            str(caught.value),
        )
        _, inputs, logp = likelihood()
        with pytest.raises(NotDifferentiableError, match="with respect to data"):
            jax.grad(jaxify(inputs, logp, host_ops="callback"), 1)(THETA, DATA)

    def test_complex_numbers(self) -> None:
        z = pt.zvector("z")
        fn = jaxify([z], pt.real(elementwise(np.exp, pt.zvector)(z)).sum(), host_ops="callback")
        with pytest.raises(NotDifferentiableError, match="which computes with complex numbers"):
            jax.grad(fn)(X + 0j)

    def test_nothing_leaks(self) -> None:
        _, inputs, logp = likelihood()
        fn = jaxify(inputs, logp, host_ops="callback")
        with jax.checking_leaks():
            jax.jit(jax.vmap(jax.hessian(fn), (0, None)))(THETA[None], DATA)


class Unknown(UnaryScalarOp):
    """An elementwise operation that JAX has no rule for."""

    def impl(self, x: Any) -> Any:
        return x * x + 1

    def L_op(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return [2 * inputs[0] * cotangents[0]]

    pullback = L_op


class Doubled(Op):
    """A core Op on vectors."""

    __props__ = ()
    gufunc_signature = "(n)->(n)"

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [x], [x.type()])

    infer_shape = staticmethod(shape_of_first)

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] * 2


class TestBatches:
    def test_elementwise_operations_take_a_batch_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shapes: list[Any] = []
        perform = Elemwise.perform

        def watch(op: Any, node: Apply, inputs: Any, output_storage: Any) -> None:
            if isinstance(op.scalar_op, Unknown):
                shapes.append(inputs[0].shape)
            perform(op, node, inputs, output_storage)

        monkeypatch.setattr(Elemwise, "perform", watch)
        x = pt.dvector("x")
        op = Elemwise(Unknown(lambda *kinds: [float64] * len(kinds), name="unknown"))
        fn = jaxify([x], op(x) * 2, host_ops="callback")
        batch = np.arange(12.0).reshape(4, 3)
        assert_same(jax.jit(jax.vmap(fn))(batch), 2 * (batch**2 + 1))
        assert shapes == [(4, 3)]
        slopes = jax.vmap(jax.grad(lambda x: fn(x).sum()))(batch)
        assert_same(slopes, 4 * batch)

    def test_batched_operations(self) -> None:
        rows = pt.dmatrix("rows")
        f = pytensor.function([rows], Blockwise(Doubled())(rows) + 1, mode=CALLBACK)
        batch = np.arange(12.0).reshape(4, 3)
        assert f.explain().graph_break_count == 0
        assert_same(f(batch), 2 * batch + 1)
        fn = jaxify([rows], Blockwise(Doubled())(rows), host_ops="callback")
        assert_same(jax.vmap(fn)(batch[None]), 2 * batch[None])


class TestWhatFunctionsShow:
    def test_the_explanation(self) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], elementwise(sort_down)(x) * 2, mode=CALLBACK)
        lines = str(f.explain()).splitlines()
        assert lines[:3] == [
            "1 region, 0 graph breaks",
            "region 0: 2 operations",
            "callback 1: sort_down(x) [PJL504]",
        ]
        assert lines[3].startswith(f"  where: {__file__}:")
        assert lines[4] == "  why: `sort_down` is a Python function that JAX cannot trace"
        size = "float64, 8 bytes an element, each time it runs"
        assert lines[5] == f"  transfer to host: x, {size}"
        assert lines[6] == f"  transfer to device: sort_down(x), {size}"
        assert f.explain().to_dict()["callbacks"][0]["op"] == "FromFunctionOp{sort_down}"

    def test_options(self) -> None:
        assert "host_ops='callback'" in repr(CALLBACK)
        with pytest.raises(ValueError, match="'split', 'error', 'callback'"):
            JAXLinker(host_ops="call")  # pyright: ignore[reportArgumentType]
        for error in (BrokenShapeError, NotDifferentiableError):
            assert issubclass(error, JAXLinkError)

    def test_saved_they_are_host_steps(self, tmp_path: Path) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], elementwise(sort_down)(pt.exp(x)) * 2, mode=CALLBACK)
        save(f, tmp_path / "f")
        g = load(tmp_path / "f", allow=["tests"])
        assert_same(g(X), np.asarray(f(X)))
        [summary] = inspect(tmp_path / "f").manifest["layers"]["compiled"]["functions"].values()
        assert summary["host_ops"] == ["FromFunctionOp{sort_down}"]

    def test_beyond_the_limit_of_compilations(self) -> None:
        x = pt.dvector("x")
        mode = JAXLinker(host_ops="callback", recompile_limit=1, on_recompile_limit="host")
        f = pytensor.function([x], elementwise(sort_down)(x) * 2, mode=mode)
        f(X)
        with pytest.warns(UserWarning, match="region 0"):
            assert_same(f(X[:2]), 2 * sort_down(X[:2]))


class _Plain(Op):
    """An Op of one vector."""

    __props__ = ()

    def make_node(self, values: Any) -> Apply:
        return Apply(self, [values], [values.type()])

    def infer_shape(self, *arguments: Any) -> list[Any]:
        return list(arguments[-1])

    def perform(self, node: Apply, inputs: list[Any], outputs: list[Any]) -> None:
        outputs[0][0] = inputs[0] * 2


class _Prepared(_Plain):
    """It keeps the cell of its input."""

    def prepare_node(self, node: Apply, storage_map: Any, compute_map: Any, impl: Any) -> None:
        self.cell = storage_map[node.inputs[0]]

    def perform(self, node: Apply, inputs: list[Any], outputs: list[Any]) -> None:
        outputs[0][0] = inputs[0] * 2 + self.cell[0][0]


class _MakingThunks(_Plain):
    """It runs by a function of its own."""

    def make_py_thunk(self, node: Apply, storage_map: Any, compute_map: Any, *_: Any) -> Any:
        [given], [result] = node.inputs, node.outputs

        def thunk() -> None:
            storage_map[result][0] = storage_map[given][0] * 3
            compute_map[result][0] = True

        thunk.lazy = False  # type: ignore[attr-defined]
        return thunk


class _WithoutHash(_Plain):
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("host_ops", ["split", "callback"])
@pytest.mark.parametrize("op", [_Prepared(), _MakingThunks()], ids=repr)
def test_operations_that_prepare_how_they_run(op: Op, host_ops: Any) -> None:
    x = pt.dvector("x")
    out = pt.exp(op(x)).sum()
    found = pytensor.function([x], out, mode=JAXLinker(host_ops=host_ops))(X)
    np.testing.assert_allclose(found, pytensor.function([x], out, mode=PYTHON)(X))


@pytest.mark.skipif(OLD, reason="PyTensor 3.0 itself asks for the hash")
@pytest.mark.filterwarnings("ignore")
def test_an_operation_without_a_hash() -> None:
    x = pt.dvector("x")
    with pytensor.config.change_flags(on_opt_error="ignore"):
        f = pytensor.function([x], pt.exp(_WithoutHash()(x)), mode=CALLBACK)
    np.testing.assert_allclose(f(X), np.exp(2 * X))
