"""Indices of narrow types, and values that do not fit the entries they are written to."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.scan.utils import until

from pytensor_jaxlink import JAXLinker, jaxify
from pytensor_jaxlink.compat import ifelse
from tests.edges.known import OLD
from tests.helpers import PYTHON, assert_same, check_against_python, compile_both, outcome

X, Y, NUMBER = pt.dvector("x"), pt.dvector("y"), pt.dscalar("number")
LONG = np.random.default_rng(0).normal(size=200)


def scanned(step: Any, indices: Any, **options: Any) -> Any:
    return pytensor.scan(step, indices, return_updates=False, **options)


USES = {
    "get": lambda x, i: x[i],
    "set": lambda x, i: pt.set_subtensor(x[i], 5.0),
    "inc": lambda x, i: pt.inc_subtensor(x[i], 5.0),
    "gradient": lambda x, i: pytensor.grad((x[i] ** 2).sum(), x),
    "window": lambda x, i: x[i - 2 : i],
    "window written": lambda x, i: pt.inc_subtensor(x[i - 2 : i], 1.0),
    "prefix": lambda x, i: pt.exp(x[:i]).sum(),
    "row": lambda x, i: pt.outer(x, x)[i, :3],
    "diagonal entry": lambda x, i: pt.inc_subtensor(pt.outer(x, x)[i, i], 1.0),
    "in a loop": lambda x, i: scanned(
        lambda t, x: x[t] * x[t - 1], pt.stack([i, i]), non_sequences=x
    ),
    "written in a loop": lambda x, i: scanned(
        lambda t, y: pt.set_subtensor(y[t], 2.0), pt.stack([i, i - 1]), outputs_info=x
    ),
}


CASES = [(use, dtype) for use in USES for dtype in ("int8", "int16", "uint8")]
CASES.remove(("prefix", "uint8"))  # a rewrite of PyTensor asserts that the bound has a sign


FAR = {"least": -(2**63), "most": 2**63 - 1, "back": -3, "near": 2}


@pytest.mark.filterwarnings("ignore:overflow encountered")  # PyTensor 3.0 negates the step
@pytest.mark.parametrize("name", FAR)
def test_steps_beyond_the_array(name: str) -> None:
    x, m = pt.dvector("x"), pt.dmatrix("m")
    step = np.int64(FAR[name])
    outputs = [
        x[::step],
        x[2::step],
        m[::step, ::step],
        pt.set_subtensor(m[::step, 1:], 5.0),
        pt.inc_subtensor(x[::step], 5.0),
        pytensor.grad((x[::step] ** 2).sum(), x),
    ]
    f, reference = compile_both([x, m], outputs)
    for length in (4, 1, 0, 6):
        given = np.arange(float(length)), np.arange(length * 3.0).reshape(length, 3)
        assert_same(f(*given), reference(*given))
    assert not f.explain().failures


@pytest.mark.parametrize(("use", "dtype"), CASES)
def test_a_narrow_index_of_a_long_axis(use: str, dtype: str) -> None:
    """JAX adds the length of the axis in the type of the index."""
    index = pt.cast(NUMBER, dtype)
    entries = (-1, -50, 100) if dtype != "uint8" else (199, 100)
    check_against_python([X, NUMBER], USES[use](X, index), *([LONG, n] for n in entries))


def test_a_place_in_a_narrow_type() -> None:
    check_against_python([X], X[pt.cast(X.argmin(), "int8") - 1], [np.arange(200.0)])


@pytest.mark.parametrize("options", [{}, {"checks": "ignore"}, {"outputs": "numpy"}])
def test_vectors_of_unsigned_indices(options: dict[str, Any]) -> None:
    """NumPy takes 64 bits of each: the largest is -1, and a scalar that large has no meaning."""
    i = pt.vector("i", dtype="uint64")
    f, reference = compile_both([X, i], pt.inc_subtensor(X[i], X[i]), JAXLinker(**options))
    for entries in ([0, 199], [2**64 - 1, 2**64 - 200, 3]):
        given = np.array(entries, "uint64")
        np.testing.assert_array_equal(f(LONG, given), reference(LONG, given))
    assert f.stats.fallbacks == 0


@pytest.mark.parametrize("write", [pt.set_subtensor, pt.inc_subtensor])
@pytest.mark.parametrize("part", [slice(5, None), slice(0, 0), slice(2, 5, -1)])
def test_a_value_for_no_entries(write: Any, part: slice) -> None:
    f, reference = compile_both([X, Y], write(X[part], Y))
    for length in range(3):
        arguments = np.ones(3), np.ones(length)
        expected, found = outcome(reference, *arguments), outcome(f, *arguments)
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint64"])
def test_real_numbers_are_set_as_numpy_converts_them(dtype: str) -> None:
    array, value = pt.vector("array", dtype=dtype), pt.dscalar("value")
    places, mask, n = pt.lvector("places"), pt.vector("mask", dtype="bool"), pt.lscalar("n")
    square = array[:, None] + pt.zeros((3,), dtype=dtype)
    outputs = [
        pt.set_subtensor(array[2], value),
        pt.set_subtensor(array[1:], value),
        pt.set_subtensor(array[::2], value),
        pt.set_subtensor(array[places], value),
        pt.set_subtensor(array[mask], value),
        pt.set_subtensor(array[n : n + 2], value),
        pt.set_subtensor(square[pt.arange(3), pt.arange(3)], value),
    ]
    inputs = [array, value, places, mask, n]
    f, reference = (pytensor.function(inputs, outputs, mode=m) for m in ("JAXSELECTIVE", PYTHON))
    rest = np.array([0, 2]), np.array([True, False, True]), 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy, of values out of range
        for number in (-1.0, 2.7, 300.0, 70_000.0, -70_000.0, 3e9):
            given = np.arange(3).astype(dtype), number, *rest
            for found, expected in zip(f(*given), reference(*given), strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint32"])
def test_booleans_are_incremented_at_places(dtype: str) -> None:
    """JAX adds numbers alone to places."""
    array, values, mask = (pt.vector(name, dtype="bool") for name in ("array", "values", "mask"))
    places, number = pt.vector("places", dtype=dtype), pt.scalar("number", dtype=dtype)
    outputs = [
        pt.inc_subtensor(array[places], values[: places.shape[0]]),
        pt.inc_subtensor(array[places], values[0], ignore_duplicates=True),
        pt.inc_subtensor(array[number], values[0]),
        pt.inc_subtensor(array[::2], values[::2]),
        pt.inc_subtensor(array[mask], values[0]),
        pt.inc_subtensor((array[:, None] & values)[places, places], values[0]),
    ]
    inputs = [array, values, mask, places, number]
    f, reference = (pytensor.function(inputs, outputs, mode=m) for m in ("JAXSELECTIVE", PYTHON))
    drawn = np.random.default_rng(0).integers(0, 2, size=(3, 300)).astype(bool)
    for entries in ([1, 1, 0], [2] * 256, []):  # as many as an int8 counts, and more
        arguments = *drawn, np.array(entries, dtype=dtype), np.array(1, dtype=dtype)
        for found, expected in zip(f(*arguments), reference(*arguments), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    assert not f.explain().failures


PARTS = {
    "one": lambda x, places, n: x[n],
    "literal": lambda x, places, n: x[1:],
    "window": lambda x, places, n: x[n : n + 2],
    "prefix": lambda x, places, n: x[: pt.neq(x, 0).sum()],
    "mask": lambda x, places, n: x[pt.neq(x, 0)],
    "places": lambda x, places, n: x[places],
    "empty": lambda x, places, n: x[9:],
}


@pytest.mark.parametrize(
    ("kept", "added"),
    [
        ("bool", "int8"),
        ("int64", "float32"),
        ("uint8", "int8"),
        ("uint64", "int64"),
        ("float32", "float64"),
        ("float64", "complex128"),
    ],
)
def test_sums_of_two_types(kept: str, added: str) -> None:
    """NumPy refuses some sums for a slice, and converts each sum of a repeated index."""
    array, value = pt.vector("array", dtype=kept), pt.scalar("value", dtype=added)
    places, n = pt.lvector("places"), pt.lscalar("n")
    arguments = np.array([1, 0, 3, 2, 0]).astype(kept), np.array(0.7).astype(added), [0, 2, 0], 1
    for name, part in PARTS.items():
        output = pt.inc_subtensor(part(array, places, n), value)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # JAX's, of types that differ
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)  # NumPy's
            f, reference = compile_both([array, value, places, n], output)
            try:
                expected = reference(*arguments)
            except TypeError as error:
                with pytest.raises(type(error)):
                    f(*arguments)
            else:
                assert_same(f(*arguments), expected)
        assert not f.explain().failures, name


def test_a_large_number_in_a_narrow_sum() -> None:
    """The sum has the type of the array, the value need not fit in it."""
    array, value = pt.fvector("array"), pt.dscalar("value")
    outputs = [pt.inc_subtensor(array[:2], value), pt.inc_subtensor(array[[0, 1]], value)]
    check_against_python([array, value], outputs, (np.full(3, -3e38, "float32"), 3.5e38))


def test_counts_of_unsigned_labels_stay_on_the_device() -> None:
    labels = pt.vector("labels", dtype="uint64")
    counts = pt.bincount(labels, minlength=4)[:4]
    f = check_against_python([labels], counts, (np.array([0, 3, 3], "uint64"),))
    assert not [cut for cut in f.explain().breaks if "NumPy" in cut.reason]


READS = {
    "entries": lambda x, i: x[i].sum(),
    "rows": lambda x, i: pt.outer(x, x)[i].sum(),
    "entry by entry": lambda x, i: pt.outer(x, x)[i, i].sum(),
    "set": lambda x, i: pt.set_subtensor(x[i], 1.0).sum(),
    "added": lambda x, i: pt.inc_subtensor(x[i], pt.cast(i, "float64")).sum(),
    "added once": lambda x, i: pt.inc_subtensor(x[i], 1.0, ignore_duplicates=True).sum(),
    "gradient": lambda x, i: pytensor.grad(pt.sqr(x[i]).sum(), x).sum(),
    "one entry": lambda x, i: x[i.max()],
    "one set": lambda x, i: pt.set_subtensor(x[i.max()], 1.0).sum(),
    "one added": lambda x, i: pt.inc_subtensor(x[i.max()], 1.0).sum(),
    "a row set": lambda x, i: pt.set_subtensor(pt.outer(x, x)[i.max()], 1.0).sum(),
    "one gradient": lambda x, i: pytensor.grad(pt.sqr(x[i.max()]), x).sum(),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("options", [{"dynamic": False}, {}])
def test_places_of_an_array_that_is_empty_now(read: str, options: dict[str, Any]) -> None:
    """JAX refuses to trace such a read, though the branch is not taken.

    PyTensor's Python linker runs both branches.
    """
    places = pt.lvector("places")
    output = ifelse(pt.gt(X.shape[0], 0), READS[read](X, places), np.float64(-1.0))
    arguments = ([LONG[:3], [0, 1]], [[], [0, 1]], [[], [0]], [LONG[:2], [1, 1]])
    f, reference = compile_both([X, places], output, JAXLinker(**options))
    for each in arguments:
        assert_same(f(*each), reference(*each) if len(each[0]) else np.array(-1.0))
    assert not f.stats.fallbacks
    assert not f.explain().failures


@pytest.mark.skipif(OLD, reason="rewrites of PyTensor 3.0 assert that the length is an integer")
def test_a_value_that_is_known_in_the_shape_of_one_that_is_not() -> None:
    """Both are the same input: the region reads its entries, and of the other the shape alone."""
    i, start = pt.bvector("i"), pt.scalar("start", dtype="uint8")
    stop = pytensor.shared(np.array(3, "uint64"))  # no size: their difference is a real number
    none = pt.isnan(pt.cast(i, "float64"))
    array = pt.inc_subtensor(i[none], 2 * i[none])
    array = pt.inc_subtensor(array[start:stop], 2 * array[start:stop])
    terms = pt.join(0, pt.cast(array, "float64"), [1.0])
    total = scanned(
        lambda term, total: (total + term, until(total > 1.5)), terms, outputs_info=[pt.zeros(())]
    )[-1]
    with pytensor.config.change_flags(on_opt_error="ignore"):
        f, reference = compile_both([i, start], total)
    for entries in ([1, 2], [2, 1, 0], [1], []):
        assert_same(f(entries, 0), reference(entries, 0))
    assert not f.explain().failures


BLOCKS = {
    "a slice": lambda x, y, n: pt.inc_subtensor(pt.zeros_like(x)[:n], y[:n]),
    "a constant slice": lambda x, y, n: pt.inc_subtensor(pt.zeros_like(x)[:2], y[:2]),
    "backwards": lambda x, y, n: pt.inc_subtensor(pt.zeros_like(x)[n::-1], y[n::-1]),
    "an entry": lambda x, y, n: pt.inc_subtensor(pt.zeros_like(x)[n], y[n]),
    "places": lambda x, y, n: pt.inc_subtensor(pt.zeros_like(x)[[0, 2]], y[:2]),
    "twice": lambda x, y, n: pt.inc_subtensor(
        pt.inc_subtensor(pt.zeros_like(x)[:2], y[:2])[2:], y[2:]
    ),
    "complex": lambda x, y, n: pt.inc_subtensor(pt.zeros((4,), dtype="complex128")[:n], y[:n]).imag,
    "a mask": lambda x, y, n: pt.inc_subtensor(pt.zeros_like(x)[y < 1], y[y < 1]),
    "a sum": lambda x, y, n: pt.add(pt.alloc(np.float64(0), n % 4), y[:3]),
    "second derivative": lambda x, y, n: pytensor.grad(
        pt.sqr(pytensor.grad(pt.tanh(x[:n] * y[:n]).sum(), x)).sum(), x
    ),
}

ADDED = OpFromGraph([X, Y], [X + Y])
WRITTEN = OpFromGraph([X, Y], [pt.inc_subtensor(X[1:], Y[1:])])
BLOCKS |= {
    "given to a loop": lambda x, y, n: scanned(
        lambda k, zeros, y: pt.inc_subtensor(zeros[k], y[k]),
        pt.arange(4),
        non_sequences=[pt.zeros_like(x), y],
    ),
    "a Hessian": lambda x, y, n: pytensor.gradient.hessian(pt.log(y[y < 0]).sum(), y),
    "given to a graph": lambda x, y, n: ADDED(pt.zeros_like(x), y),
    "known in a graph": lambda x, y, n: ADDED(np.zeros(4), y),
    "written in a graph": lambda x, y, n: WRITTEN(np.zeros(4), y),
    "given to a side": lambda x, y, n: ifelse(
        n > 2, pt.inc_subtensor(pt.zeros_like(x)[:2], y[:2]) + pt.zeros_like(x), x
    ),
    "a ramp": lambda x, y, n: pt.pad(y, (0, 3), mode="linear_ramp"),
}


MODES = {
    "each size": (JAXLinker(dynamic=False), PYTHON),
    "sizes are data": (JAXLinker(dynamic=True), PYTHON),
    "no rewrites": (Mode(JAXLinker(), None), Mode("py", None)),
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("block", BLOCKS)
def test_zeros_plus_a_negative_zero(block: str, name: str) -> None:
    """XLA takes ``0.0 + y`` for ``y``."""
    n = pt.lscalar("n")
    outputs, inputs = BLOCKS[block](X, Y, n), [X, Y, n]
    f, reference = (
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in MODES[name]
    )
    arguments = np.zeros(4), np.array([-0.0, 0.0, -0.0, -1.0]), 3
    expected = reference(*arguments)
    np.testing.assert_array_equal(np.signbit(f(*arguments)), np.signbit(expected))
    assert_same(f(*arguments), expected)


def test_nothing_is_selected_of_one_entry() -> None:
    """The gradient adds -0.0 to a zero that XLA knows."""
    cost = pt.sin(X[pt.argsort(X)[: (X > 0).sum()]]).sum()
    f, reference = compile_both([X], pytensor.grad(cost, X))
    for given in ([-1.0], [-1.0, -2.0], [1.0]):
        np.testing.assert_array_equal(np.signbit(f(given)), np.signbit(reference(given)))
        assert_same(f(given), reference(given))


def test_the_derivative_of_an_increment_of_zeros() -> None:
    """It is 1 at zero as well."""
    update = jaxify([X], pt.inc_subtensor(pt.zeros_like(X)[:2], X[:2]))
    np.testing.assert_array_equal(jax.jacobian(update)(jnp.zeros(3)), np.diag([1.0, 1.0, 0.0]))


@pytest.mark.parametrize("length", [12, 12_000])
def test_a_gradient_by_parts_of_a_vector(length: int) -> None:
    """One kernel for a short one; of a long one each part is written where it is."""
    step = length // 4
    total = sum(pt.exp((k + 1) * X[k * step : (k + 1) * step]).sum() for k in range(3))
    f, reference = compile_both([X], pytensor.grad(total, X))
    given = np.linspace(-1, 1, length)
    assert_same(f(given), reference(given))
    with jax.enable_x64(True):
        code = jax.jit(f.jax_fn).lower(given).compile().as_text()
    assert code is not None
    assert ("dynamic-update-slice" in code) == (length > 256)


OVERLAPPING = [
    np.s_[1:3, 1:4],
    np.s_[2],
    np.s_[-1, -1],
    np.s_[:, 2],
    np.s_[::-1, :1],
    np.s_[0:2, ::-1],
]


@pytest.mark.parametrize("base", ["zeros", "negative zeros", "values"])
def test_sums_with_parts_of_a_small_matrix(base: str) -> None:
    x = pt.dmatrix("x")
    made = {"zeros": pt.zeros_like(x), "negative zeros": -pt.zeros_like(x), "values": x}[base]
    for k, part in enumerate(OVERLAPPING):
        made = pt.inc_subtensor(made[part], x[part] * k)
    check_against_python([x], made, (np.linspace(-1, 1, 20).reshape(4, 5),))
    check_against_python([x], made, (-np.zeros((4, 5)),))


def test_a_vector_of_many_parts_in_any_order() -> None:
    order = np.random.default_rng(0).permutation(60)
    cost = sum(pt.exp(X[k]) * (k + 1.0) for k in map(int, order))
    f = check_against_python([X], pytensor.grad(cost, X), (np.linspace(-1, 1, 60),))
    with jax.enable_x64(True):
        traced = str(jax.make_jaxpr(f.jax_fn)(np.ones(60)))
    assert 0 < traced.count("concatenate[") <= 32  # XLA simplifies one in each of 50 runs


def test_a_part_of_a_sum_keeps_its_negative_zeros() -> None:
    f, reference = compile_both([X], pt.inc_subtensor(X[1:3], 1.0))
    given = np.array([-0.0, 0.0, 1.0, -0.0])
    np.testing.assert_array_equal(np.signbit(f(given)), np.signbit(reference(given)))
    assert_same(f(given), reference(given))


def test_an_index_beside_places_of_which_there_are_none() -> None:
    """NumPy looks at it all the same."""
    table, places = pt.dmatrix("table"), pt.lvector("places")
    f, reference = compile_both([table, places], table[places, 0], JAXLinker(dynamic=True))
    for shape, given in (((2, 1), [1]), ((2, 1), []), ((1, 0), []), ((1, 2), [0, 0, 0])):
        arguments = np.ones(shape), np.array(given, "int64")
        try:
            expected = reference(*arguments)
        except IndexError:
            with pytest.raises(IndexError):
                f(*arguments)
        else:
            assert_same(f(*arguments), expected)
    assert f.stats.host_regions == f.explain().graph_break_count == 0


@pytest.mark.parametrize("one", [np.int8(1), np.bool_(True), np.float32(1)])
def test_integers_that_are_added_at_places_of_a_padded_array(one: Any) -> None:
    """The places of the padding add nothing to the first entry: -0.0 stays."""
    places = pt.vector("places", dtype="int16")
    f, reference = compile_both(
        [X, places], pt.inc_subtensor(X[places], one), JAXLinker(dynamic=True)
    )
    for length, given in ((3, [1]), (5, [1, 1, 2]), (4, []), (6, [0, 3])):
        arguments = np.array([-0.0, 1.0, 0.0, -0.0, 2.0, -0.0])[:length], np.array(given, "int16")
        expected = reference(*arguments)
        np.testing.assert_array_equal(np.signbit(f(*arguments)), np.signbit(expected))
        assert_same(f(*arguments), expected)
