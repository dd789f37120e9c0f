"""Rules of ours against the Python linker: loops, inner graphs, indexing, constants, dtypes."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.raise_op import Assert
from pytensor.tensor import fft
from pytensor.tensor.signal import convolve2d

from pytensor_jaxlink import JAXLinker, jaxify
from tests.helpers import PYTHON, as_list, assert_same_outcomes, check_against_python, compile_both

ONE = pt.constant(1.0, dtype="float64")
X, M = np.arange(1.0, 7.0) / 3, np.arange(12.0).reshape(3, 4) / 5


def scan(*arguments: Any, **options: Any) -> Any:
    return pytensor.scan(*arguments, return_updates=False, **options)


def two_taps(x: Any) -> Any:
    start = pt.as_tensor(np.array([0.5, 1.5]))
    return scan(
        lambda e, older, old: 0.5 * old + 0.25 * older + e,
        sequences=[x],
        outputs_info=[{"initial": start, "taps": [-2, -1]}],
    )


LOOPS = {
    "map": lambda x: scan(lambda e: pt.exp(e) * 2, sequences=[x]),
    "one_state": lambda x: scan(
        lambda e, s: s * 0.5 + e, sequences=[x], outputs_info=[ONE]
    ),
    "one_state_last": lambda x: scan(
        lambda e, s: s * 0.5 + e, sequences=[x], outputs_info=[ONE]
    )[-1],
    "vector_state": lambda x: scan(
        lambda e, s: s * 0.5 + e, sequences=[x], outputs_info=[pt.zeros(3)]
    )[-2:],
    "two_taps": two_taps,
    "two_taps_last": lambda x: two_taps(x)[-1],
    "sequence_taps": lambda x: scan(
        lambda before, now, after: before * now + after,
        sequences=[{"input": x, "taps": [-1, 0, 1]}],
    ),
    "backwards": lambda x: scan(
        lambda e, s: s * 0.5 + e,
        sequences=[x],
        outputs_info=[ONE],
        go_backwards=True,
    ),
    "fewer_steps": lambda x: scan(lambda e: e * 2, sequences=[x], n_steps=3),
    "non_sequence": lambda x: scan(
        lambda e, all_of_it: e + all_of_it.sum(), sequences=[x], non_sequences=[x]
    ),
    "nested": lambda x: scan(
        lambda e, all_of_it: scan(lambda f, g: f * g, sequences=[all_of_it], non_sequences=[e]),
        sequences=[x],
        non_sequences=[x],
    ),
    "grad_two_taps": lambda x: pt.grad(two_taps(x).sum(), x),
    "grad_backwards": lambda x: pt.grad(LOOPS["backwards"](x).sum(), x),
    "grad_sequence_taps": lambda x: pt.grad(LOOPS["sequence_taps"](x).sum(), x),
    "grad_nested": lambda x: pt.grad(LOOPS["nested"](x).sum(), x),
    "second_derivative": lambda x: pt.grad(
        pt.grad(LOOPS["one_state_last"](x) ** 2, x).sum(), x
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    x = pt.dvector("x")
    f = check_against_python([x], LOOPS[name](x), (X,), (X[:4],))
    assert f.explain().graph_count == 1


def test_no_steps() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    loop = scan(lambda e, s: s + e, sequences=[x], outputs_info=[ONE], n_steps=n)
    f = check_against_python([x, n], loop, (X, 2), (X, 5))
    with pytest.raises((ValueError, IndexError)):
        f(X, 9)


def test_random_numbers_in_a_loop() -> None:
    rng = pytensor.shared(np.random.default_rng(5), "rng")

    def step(state: Any) -> Any:
        following, draw = pt.random.normal(rng=state, size=(2,)).owner.outputs
        return following, draw

    outputs = scan(step, outputs_info=[rng, None], n_steps=4)
    f = pytensor.function([], outputs[1], updates={rng: outputs[0]}, mode="JAXSELECTIVE")
    first, second = f(), f()
    assert first.shape == (4, 2)
    assert len(np.unique(np.concatenate([first, second]))) == 16


def test_inner_graphs_inside_inner_graphs() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    a, k = pt.dvector("a"), pt.lscalar("k")
    inner = OpFromGraph([a, k], [a[:k] * 2])
    outer = OpFromGraph([a, k], [inner(pt.exp(a), k // 2) + k])
    f = check_against_python([x, n], outer(x, n + 1), (X, 3), (X, 5))
    assert (f.explain().graph_count, f.explain().graph_break_count) == (1, 0)
    assert f.explain().static_inputs == ("n",)


def test_only_the_breaks_of_an_inner_graph_break() -> None:
    x, a = pt.dvector("x"), pt.dvector("a")
    inner = OpFromGraph([a], [pt.unique(pt.exp(a)) * 2])
    outer = OpFromGraph([a], [pt.tanh(inner(a + 1)) * 3])
    f = check_against_python([x], outer(pt.sin(x)) + 1, (X,))
    assert (f.explain().graph_count, f.explain().graph_break_count) == (2, 1)
    [cut] = f.explain().breaks
    assert cut.op.startswith("Unique")
    assert "test_rules.py" in cut.where


def test_an_inner_graph_that_cannot_be_traced_runs_on_the_host() -> None:
    def total(e: Any, a: Any) -> Any:
        return pt.signal.convolve1d(a[a > e - 100], a[:2]).sum()

    x = pt.dvector("x")
    loop = scan(total, sequences=[x], non_sequences=[x])
    f = check_against_python([x], loop * 2, (X,))
    [cut] = f.explain().breaks
    assert cut.kind == "break inside an inner graph"
    assert "it selects by" in cut.reason
    assert "test_rules.py" in cut.where


class TestChecks:
    def test_an_assertion_inside_a_loop(self) -> None:
        x = pt.dvector("x")
        loop = scan(lambda e: Assert("positive, please")(e * 2, pt.gt(e, 0)), sequences=[x])
        f = check_against_python([x], loop, (X,))
        assert f.explain().graph_count == 1
        with pytest.raises(AssertionError, match="positive, please"):
            f(-X)

    def test_an_index_inside_a_loop(self) -> None:
        indices, x = pt.lvector("indices"), pt.dvector("x")
        loop = scan(lambda i, a: a[i], sequences=[indices], non_sequences=[x])
        f = check_against_python([indices, x], loop, (np.array([0, -1, 5]), X))
        with pytest.raises(IndexError):
            f(np.array([0, 6]), X)

    @pytest.mark.parametrize("index", [[0, 6], [-7]])
    def test_indices(self, index: list[int]) -> None:
        indices, x = pt.lvector("indices"), pt.dvector("x")
        for output in (x[indices], x[indices].set(0.0), x[indices].inc(1.0)):
            f = check_against_python([indices, x], output, (np.array([0, -6, 5]), X))
            with pytest.raises(IndexError):
                f(np.array(index), X)


INDEXING = {
    "set_block": lambda m, n: m[1:, :2].set(0.5),
    "add_to_block": lambda m, n: m[:2, 1:3].inc(m[1:, :2]),
    "set_reversed": lambda m, n: m[::-1].set(m),
    "add_to_reversed": lambda m, n: m[::-1, ::-1].inc(m[::-1]),
    "set_row": lambda m, n: m[n].set(m[0] * 2),
    "add_to_element": lambda m, n: m[n, -1].inc(2.5),
    "set_row_from_end": lambda m, n: m[-n].set(0.0),
    "set_with_gaps": lambda m, n: m[::2, 1::2].set(7.0),
    "add_to_nothing": lambda m, n: m[5:].inc(1.0),
    "broadcast": lambda m, n: m[1:].set(m[0]),
    "repeated_index": lambda m, n: m[pt.stack([n, n, 0])].inc(1.0),
    "repeated_index_once": lambda m, n: pt.inc_subtensor(
        m[pt.stack([n, n, 0])], 1.0, ignore_duplicates=True
    ),
    "index_and_slice": lambda m, n: m[pt.stack([n, 0]), :n],
    "mask_of_shapes": lambda m, n: m[pt.tri(m.shape[0], m.shape[1], dtype="bool")],
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name: str) -> None:
    m, n = pt.dmatrix("m"), pt.lscalar("n")
    f = check_against_python([m, n], INDEXING[name](m, n), (M, 1), (M, 2))
    assert f.explain().graph_count == 1


class TestConstants:
    def test_small_ones_are_inlined_and_large_ones_passed(self) -> None:
        x = pt.dvector("x")
        small, large = np.arange(6.0), np.arange(6_000.0)
        f = pytensor.function([x], [x + small, x.sum() + large], mode="JAXSELECTIVE")
        [region] = f.plan.regions
        assert len(region.arguments) == 2
        np.testing.assert_allclose(f(X)[1], X.sum() + large)

    def test_large_ones_in_a_function_that_the_user_jits(self) -> None:
        x = pt.dscalar("x")
        f = pytensor.function([x], x + np.arange(6_000.0), mode="JAXSELECTIVE")
        with jax.checking_leaks():
            for value in (1.0, 2.0):
                [found] = jax.jit(f.jax_fn)(np.asarray(value))
                np.testing.assert_allclose(found, value + np.arange(6_000.0))
        np.testing.assert_allclose(f(3.0), 3 + np.arange(6_000.0))

    def test_large_ones_are_not_in_the_compiled_code(self) -> None:
        x = pt.dscalar("x")
        f = pytensor.function([x], x + np.arange(50_000.0), mode="JAXSELECTIVE")
        [step] = f.vm.compiled.lowered.functions
        places = f.plan.regions[0].arguments
        values = [np.float64(1.0) if k in f.plan.inputs else np.arange(50_000.0) for k in places]
        text = jax.jit(step, static_argnums=0).lower((), *values).as_text()
        assert len(text) < 10_000


@pytest.mark.parametrize(
    ("dtype", "graph"),
    [
        ("float32", lambda x: x * 2),
        ("float32", lambda x: x.mean()),
        ("float32", lambda x: x / x.shape[0]),
        ("float32", lambda x: pt.switch(x > 1, x, pt.constant(np.float32(0.0)))),
        ("int8", lambda x: x + np.int8(1)),
        ("int8", lambda x: x.sum()),
        ("int32", lambda x: x.argmax()),
        ("int64", lambda x: x + 2**40),
        ("uint8", lambda x: -x),
        ("bool", lambda x: x + x),
        ("bool", lambda x: ~x),
        ("complex128", lambda x: x.real + pt.abs(x)),
    ],
)
@pytest.mark.parametrize("floatX", ["float64", "float32"])
def test_dtypes_are_as_declared(dtype: str, graph: Any, floatX: str) -> None:
    with pytensor.config.change_flags(floatX=floatX):
        x = pt.vector("x", dtype=dtype)
        output = graph(x)
    check_against_python([x], output, (np.array([0, 1, 3], dtype=dtype),))


def test_the_largest_complex_number() -> None:
    """NumPy orders by real parts, then by imaginary ones, and takes the first NaN."""
    z = pt.zmatrix("z")
    outputs = [z.argmax(), z.argmax(axis=0), z.argmax(axis=1)]
    drawn = np.random.default_rng(0).integers(-1, 2, (2, 9, 3, 4))
    special = [complex(np.nan, 1), complex(1, np.nan), complex(np.inf, np.nan), complex(-np.inf, 2)]
    calls = [(real + 1j * imaginary,) for real, imaginary in zip(*drawn, strict=True)]
    for number, (array,) in zip(special, calls[1:], strict=False):
        array[1, 1:3] = number
    check_against_python([z], outputs, *calls)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_reductions_of_complex_numbers_to_real_ones(dtype: str) -> None:
    z = pt.zmatrix("z")
    outputs = [z.sum(dtype=dtype), z.prod(axis=0, dtype=dtype), z.mean(dtype=dtype)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        check_against_python([z], outputs, (np.arange(6.0).reshape(2, 3) + 0.25 + 2j,))


PADDINGS: list[dict[str, Any]] = [
    {"mode": "constant", "constant_values": 2.75},
    {"mode": "linear_ramp", "end_values": (3, 1)},
    {"mode": "mean"},
    {"mode": "minimum", "stat_length": (1, 2)},
    {"mode": "reflect"},
]


@pytest.mark.parametrize("options", PADDINGS, ids=str)
def test_padding(options: dict[str, Any]) -> None:
    """PyTensor's rule pads as NumPy does; PyTensor's Op neither rounds nor converts to integers."""
    v = pt.lvector("v")
    f = check_against_python([v], pt.pad(v, (1, 2), **options), (np.arange(4),), (np.arange(3),))
    assert f.explain().graph_break_count == 0


def test_an_elementwise_op_without_a_jax_rule_is_a_host_step() -> None:
    from pytensor.scalar.basic import UnaryScalarOp, upgrade_to_float
    from pytensor.tensor.elemwise import Elemwise

    class Strange(UnaryScalarOp):
        def impl(self, value: float) -> float:
            return value + 1

    x = pt.dvector("x")
    f = check_against_python([x], Elemwise(Strange(upgrade_to_float, name="strange"))(x) * 2, (X,))
    assert f.explain().graph_break_count == 1


@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("mode", ["full", "economic", "r", "raw"])
def test_qr_in_a_region(mode: str, pivoting: bool) -> None:
    """PyTensor's rule takes neither reflectors nor pivots."""
    a = pt.dmatrix("a")
    outputs = pt.linalg.qr(a, mode=mode, pivoting=pivoting)
    f, reference = compile_both([a], outputs)
    for shape in ((4, 3), (3, 3), (3, 5)):
        value = np.random.default_rng(0).normal(size=shape)
        pairs = zip(as_list(f(value)), as_list(reference(value)), strict=True)
        for found, expected in pairs:
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, atol=1e-12)
    only_host = mode == "raw" and pivoting
    assert f.explain().graph_break_count == only_host
    assert f.stats.fallbacks == 0


def test_indices_are_no_reason_to_compile_again() -> None:
    i, j = pt.vector("i", dtype="int8"), pt.lvector("j")
    outputs = [pt.ravel_multi_index((i, j), (4, 5), order=order) for order in "CF"]
    f, reference = compile_both([i, j], outputs)
    for k in range(4):
        given = np.array([k, 0], "int8"), np.array([4 - k, 2])
        for found, expected in zip(f(*given), reference(*given), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert f.stats.compilations == [1]
    with pytest.raises(ValueError, match="invalid entry in coordinates array"):
        f(np.array([4, 0], "int8"), np.array([1, 2]))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["int64", "int8"])
def test_searchsorted_by_a_permutation(side: str, dtype: str) -> None:
    x, v, order = pt.dvector("x"), pt.dmatrix("v"), pt.vector("order", dtype=dtype)
    f, reference = compile_both([x, v, order], pt.searchsorted(x, v, side=side, sorter=order))
    values = np.array([3.0, 1.0, 2.0, 2.0, np.inf, np.nan])
    wanted = np.array([[0.0, 1.0, 1.5, 2.0], [3.0, 4.0, np.inf, np.nan]])
    sorting = np.argsort(values).astype(dtype)
    np.testing.assert_array_equal(f(values, wanted, sorting), reference(values, wanted, sorting))
    np.testing.assert_array_equal(f(values[:0], wanted, sorting[:0]), np.zeros((2, 4)))
    assert (f.explain().graph_break_count, f.stats.fallbacks) == (0, 0)
    for wrong in (sorting + np.array(3, dtype), sorting[:3]):
        for function in (f, reference):
            with pytest.raises(ValueError, match="orter"):
                function(values, wanted, wrong)


def test_complex_of_integers() -> None:
    a, b = pt.lvectors("a", "b")
    f = check_against_python([a, b], pt.complex(a, b), (np.array([1, -2]), np.array([0, 3])))
    assert f.explain().graph_break_count == 0
    assert f.stats.compilations == [1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
def test_products_with_units_keep_what_is_not_finite(dtype: str) -> None:
    """XLA makes a selection of a product with a converted boolean: NaN times 0 would be 0."""
    m, n = pt.dmatrix("m"), pt.lscalar("n")
    value = np.array([[1.0, np.nan, 2.0], [np.inf, 3.0, 4.0], [-np.inf, 5.0, 6.0]])
    for unit in (pt.eye(n, dtype=dtype), pt.eye(m.shape[0], k=1, dtype=dtype)):
        outputs = [m * unit, (m * unit).sum(), (m * unit).sum(axis=0)]
        for mode in ("JAXSELECTIVE", JAXLinker(dynamic=True), JAXLinker(jit=True)):
            f, reference = compile_both([m, n], outputs, mode)
            for found, expected in zip(f(value, 3), reference(value, 3), strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # some BLAS
@pytest.mark.parametrize("factor", ["cast", "switch", "compared", "mask"])
def test_products_with_conditions_keep_what_is_not_finite(factor: str) -> None:
    x = pt.dvector("x")
    condition = {
        "cast": pt.cast(x > 0, "float64"),
        "switch": pt.switch(x > 0, 1.0, 0.0),
        "compared": x > 0,
        "mask": pt.isnan(x).astype("int8"),
    }[factor]
    y = pt.log(x)
    outputs = [(condition * y).sum(), condition * y, condition[None] @ y[:, None]]
    f, reference = compile_both([x], outputs)
    value = np.array([1.0, -1.0, 0.0, 2.0, np.nan, np.inf])
    for found, expected in zip(f(value), reference(value), strict=True):
        np.testing.assert_array_equal(found, expected)


OFFSETS = (0, 1, -1, 2, 3, 4, 5, 6, 9, -2, -3, -4, -5, -6, -9, 127, -128)


@pytest.mark.parametrize("kind", ["int64", "int8", "uint8"])
@pytest.mark.parametrize("shape", [(3, 4), (5, 3), (3, 3), (1, 5), (12, 11), (0, 3), (3, 0)])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_fill_diagonal_offset(shape: tuple[int, int], kind: str) -> None:
    m, value, k = pt.dmatrix("m"), pt.bscalar("value"), pt.scalar("k", dtype=kind)
    offsets = [np.array(k, kind) for k in OFFSETS if np.iinfo(kind).min <= k]
    filled = pt.fill_diagonal_offset(pt.exp(m), value, k) * 2
    if shape == (12, 11) and "8" in kind:  # where all is filled NumPy does not fit it into 8 bits
        offsets = [offset for offset in offsets if offset not in (0, -1)]
    calls = [(np.ones(shape), np.int8(-7), offset) for offset in offsets]
    f = check_against_python([m, value, k], filled, *calls)
    assert f.explain().graph_break_count == 0
    assert f.stats.compilations == [1]  # the offset is data


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16", "bool"])
def test_fill_diagonal_offset_of_other_dtypes(dtype: str) -> None:
    m, value, k = pt.matrix("m", dtype=dtype), pt.scalar("value", dtype="bool"), pt.wscalar("k")
    given = np.array([[0, 1, 2], [3, 0, 5]]).astype(dtype)
    calls = [(given, np.True_, np.int16(offset)) for offset in (1, -1)]
    f = check_against_python([m, value, k], pt.fill_diagonal_offset(m, value, k), *calls)
    assert f.explain().graph_break_count == 0


@pytest.mark.parametrize("options", [{}, {"jit": False}, {"outputs": "numpy"}, {"jit": True}])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_fill_diagonal_offset_by_a_literal(options: dict[str, Any]) -> None:
    """A literal has 8 bits, in which NumPy computes where to write."""
    m = pt.dmatrix("m")
    for offset in (1, -3):
        filled = pt.fill_diagonal_offset(m, 1.0, offset)
        f, reference = compile_both([m], filled, JAXLinker(**options))
        for length in (4, 20):
            value = np.zeros((length, length))
            np.testing.assert_array_equal(f(value), reference(value))
        assert (f.explain().graph_break_count, f.stats.fallbacks) == (0, 0)


def test_fill_diagonal_offset_raises() -> None:
    m, k = pt.dmatrix("m"), pt.bscalar("k")
    for function in compile_both([m, k], pt.fill_diagonal_offset(m, 1.0, k)):
        assert np.asarray(function(np.zeros((11, 10)), np.int8(0))).sum() == 10
        for shape, offset in (((12, 12), 0), ((3, 128), 1), ((128, 3), -1)):
            with pytest.raises(OverflowError, match="out of bounds for int8"):
                function(np.zeros(shape), np.int8(offset))


def test_gradients_of_fill_diagonal_offset() -> None:
    m, value, k = pt.dmatrix("m"), pt.dscalar("value"), pt.lscalar("k")
    cost = (pt.fill_diagonal_offset(pt.sin(m), value, k) ** 3).sum()
    calls = [(M, 0.5, k) for k in (0, 1, -2, 3, 4, -3)]
    f = check_against_python([m, value, k], pt.grad(cost, [m, value]), *calls)
    assert f.explain().graph_break_count == 0
    derivative = jax.jit(jax.grad(jaxify([m, value, k], cost), argnums=(0, 1)))
    for call in calls:
        for found, expected in zip(derivative(*call), f(*call), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_fill_diagonal_offset_in_a_loop() -> None:
    m, offsets = pt.dmatrix("m"), pt.lvector("offsets")
    filled = scan(
        lambda k, state: pt.fill_diagonal_offset(state, pt.cast(k, "float64"), k),
        sequences=[offsets],
        outputs_info=[m],
    )
    f = check_against_python([m, offsets], filled[-1], (M, np.arange(-3, 5)), (M.T, np.arange(3)))
    assert f.explain().graph_break_count == 0


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_log_sums_of_nothing(axis: int | None, dtype: str) -> None:
    """The largest entry has a first value there, which JAX's maximum of nothing lacks."""
    matrix = pt.matrix("matrix", dtype=dtype)
    sums = pt.logsumexp(matrix, axis=axis)
    shapes = (0, 2), (2, 0), (0, 0), (2, 3)
    calls = [[np.ones(shape, dtype=dtype)] for shape in shapes]
    if "initial" not in pt.math.Max.__props__:
        pytest.skip("before PyTensor 3.3 log sums of nothing raise")
    f = check_against_python([matrix], sums, *calls)
    assert not f.explain().failures


@pytest.mark.parametrize("negative", [-1, -3])
def test_each_negative_length_is_the_unknown_one(negative: int) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    pairs = x.reshape((n, 2))
    f = check_against_python([x, n], pairs, [X, negative])
    assert f.stats.fallbacks == 0
    np.testing.assert_array_equal(jaxify([x, n], pairs)(X, negative), X.reshape(3, 2))


@pytest.mark.parametrize(
    "reshape",
    [lambda m, k, n: m.reshape((k, n, m.shape[1])), lambda m, k, n: pt.split_dims(m, (k, n), 0)],
)
def test_an_unknown_length_beside_a_length_of_zero(reshape: Any) -> None:
    m, k, n = pt.dmatrix("m"), pt.lscalar("k"), pt.lscalar("n")
    shapes = [(4, 3), (0, 3), (0, 0), (4, 0)]
    lengths = [(-1, 2), (2, -1), (-5, 0), (0, -1), (0, 2)]
    calls = [(np.ones(shape), *pair) for shape in shapes for pair in lengths]
    outputs = reshape(m, k, n)
    functions = [
        pytensor.function([m, k, n], outputs, mode=mode)
        for mode in (JAXLinker(recompile_limit=100), PYTHON)
    ]
    assert_same_outcomes(*functions, calls)


def test_transforms_without_imaginary_parts() -> None:
    parts = pt.dtensor3("parts")
    calls = [(np.ones((2, 3, last)),) for last in (2, 3, 1)]
    assert_same_outcomes(*compile_both([parts], fft.irfft(parts)), calls)


@pytest.mark.parametrize("dtype", ["bool", "float16"])
def test_convolutions_of_types_that_scipy_has_not(dtype: str) -> None:
    image = pt.tensor("image", dtype=dtype, shape=(None, None))
    for function in compile_both([image], convolve2d(image, image[:2])):
        with pytest.raises(ValueError, match="Unsupported type"):
            function(np.ones((3, 2), dtype))
