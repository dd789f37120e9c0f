"""Arguments of every class: functions that were built and loaded ones take what PyTensor takes."""

from __future__ import annotations

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scalar import get_scalar_type

from pytensor_jaxlink import JAXLinker, load, save

BUILT = "JAXSELECTIVE"
DTYPES = ("float64", "float32", "int64", "int8", "uint8", "bool", "complex128")
OPTIONS = (
    {},
    {"allow_downcast": True},
    {"allow_downcast": False},
    {"strict": True, "allow_downcast": None},
)
VALUES = (
    True,
    2,
    300,
    -1,
    2**60,
    2**70,
    2.0,
    2.5,
    0.1,
    float("nan"),
    float("inf"),
    1j,
    np.float64(1.5),
    np.float32(0.1),
    np.int8(3),
    np.bool_(True),
    np.array(2.0),
    np.array(2, "int8"),
    np.array([2.0]),
    np.array(2.0, ">f8"),
    np.ma.masked_array(2.0, False),
    [2.0],
    "2",
    None,
)


def variable(dtype: str, *, is_array: bool):
    return pt.scalar("v", dtype=dtype) if is_array else get_scalar_type(dtype)("v")


def doubled(v, *, is_array: bool):
    """A graph that JAX computes."""
    array = v if is_array else pt.tensor_from_scalar(v)
    return pt.stack([array, array])


def found(function, value) -> object:
    with np.errstate(all="ignore"):
        try:
            result = function(value)
        except Exception as error:
            return type(error), str(error).splitlines()[0]
    return str(result.dtype), np.asarray(result).tolist().__repr__()


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "downcast", "exact", "strict"])
@pytest.mark.parametrize("is_array", [True, False], ids=["array", "number"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_call_takes_what_pytensor_takes(dtype, is_array, options):
    v = variable(dtype, is_array=is_array)
    inputs, graph = [pytensor.In(v, **options)], doubled(v, is_array=is_array)
    python, built = (
        pytensor.function(inputs, graph, mode=mode)
        for mode in (pytensor.compile.mode.Mode("py"), BUILT)
    )
    for value in VALUES:
        if not is_array and np.shape(value):
            continue  # PyTensor lets it through as an array, which is no number
        expected = found(python, value)
        assert found(built, value) == expected, repr(value)


@pytest.mark.parametrize("is_array", [True, False], ids=["array", "number"])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float64", (2, 2.5, np.float64(0.1), np.array(0.5), jax.numpy.array(1.5, "float64"))),
        ("int8", (2, np.int8(3), np.array(4, "int8"), jax.numpy.array(5, "int8"))),
        ("bool", (True, np.bool_(False), np.array(True), jax.numpy.array(False))),
    ],
)
def test_numbers_take_the_fast_path(tmp_path, dtype, values, is_array):
    v = variable(dtype, is_array=is_array)
    built = pytensor.function([v], doubled(v, is_array=is_array), mode=BUILT)
    built(values[0])
    save(built, tmp_path / "f")
    loaded = load(tmp_path / "f")
    for function in (built, loaded):
        for value in values:
            function(value)
            before = function.stats.direct
            result = function(value)
            assert function.stats.direct == before + 1, repr(value)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, [value, value])
        assert function.stats.compilations == [1]


def test_the_host_gets_a_number_of_numpy(tmp_path):
    """As PyTensor gives it: Ops of numbers may ask for its attributes or class."""
    n = get_scalar_type("int64")("n")
    built = pytensor.function([n], pt.arange(pt.tensor_from_scalar(n)), mode=BUILT)
    built(3)
    save(built, tmp_path / "f")
    for function in (built, load(tmp_path / "f")):
        for value in (3, np.int64(3), np.array(3), 3.0):
            np.testing.assert_array_equal(function(value), [0, 1, 2])
    np.testing.assert_array_equal(built(4), [0, 1, 2, 3])  # where the size becomes data


def test_a_pure_function_refuses_a_vector_for_a_number():
    v = get_scalar_type("float64")("v")
    built = pytensor.function([v], doubled(v, is_array=False), mode=BUILT)
    with pytest.raises(TypeError, match=r"v: expected float64, found an array of shape \(2,\)"):
        built.jax_fn(np.ones(2))


ARRAYS = (
    [1.0, 2.0],
    (1, 2),
    [],
    [[1.0, 2.0], [3.0, 4.0]],
    [[1.0], [2.0, 3.0]],
    range(3),
    2.0,
    None,
    "12",
    np.float64(1.5),
    np.arange(3.0),
    np.arange(3, dtype="float32"),
    np.arange(3),
    np.arange(3, dtype="int8"),
    np.arange(300),
    np.array([0.1, np.nan]),
    np.array([0.1, 0.2], "float32"),
    np.array([True, False]),
    np.array([1j, 2]),
    np.arange(3.0).astype(">f8"),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.arange(6.0)[::2],
    np.array([1, 2], dtype=object),
    np.arange(6.0).reshape(2, 3),
    np.arange(6, dtype="float32").reshape(2, 3).T,
    np.arange(3.0)[:, None],
    np.zeros((0, 2), "int64"),
    jax.numpy.arange(3, dtype="float32"),
    jax.numpy.arange(6, dtype="int8").reshape(2, 3),
)


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "downcast", "exact", "strict"])
@pytest.mark.parametrize(
    ("dtype", "ndim"),
    [("float64", 1), ("float32", 2), ("int64", 2), ("int8", 1), ("bool", 1)],
)
def test_a_call_takes_the_arrays_that_pytensor_takes(dtype, ndim, options):
    """Twice: when many were of other types than JAX has compiled for, each is looked at first."""
    x, s = pt.tensor("x", dtype=dtype, shape=(None,) * ndim), pt.scalar("s", dtype="float64")
    inputs, graph = [pytensor.In(x, **options), s], pt.concatenate([x, x]) + s.astype(dtype)
    python, built = (
        pytensor.function(inputs, graph, mode=mode)
        for mode in (pytensor.compile.mode.Mode("py"), BUILT)
    )
    for value in (*ARRAYS, *ARRAYS):
        # Strict inputs take it too.
        accepted = isinstance(value, jax.Array) and (value.dtype, value.ndim) == (dtype, ndim)
        expected = found(lambda v: python(v, 1), np.asarray(value) if accepted else value)
        assert found(lambda v: built(v, 1), value) == expected, repr(value)


@pytest.mark.parametrize("dtype", ["int8", "float64", "bool"])
def test_a_loaded_function_refuses_numbers_as_the_built_one(tmp_path, dtype):
    """PyTensor's types of numbers raise no other class."""
    v = variable(dtype, is_array=False)
    built = pytensor.function([v], doubled(v, is_array=False), mode=BUILT)
    built(1)
    save(built, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    for value in (300, 1e300, 2**70, float("nan"), float("inf"), "a", "", object(), 1):
        expected = found(built, value)
        assert found(loaded, value)[0] == expected[0], repr(value)


def test_lists_and_arrays_of_other_types_take_the_fast_path(tmp_path):
    x = pt.vector("x", dtype="float64")
    built = pytensor.function([x], pt.exp(x), mode=BUILT)
    built(np.zeros(3))
    save(built, tmp_path / "f")
    for function in (built, load(tmp_path / "f")):
        for value in ([1, 2, 3], np.arange(3), np.arange(3, dtype="float32"), np.arange(3.0)):
            for _ in range(4):
                before, moved = function.stats.direct, function.stats.bytes_to_device
                np.testing.assert_allclose(function(value), np.exp(np.asarray(value, float)))
                assert function.stats.direct == before + 1, repr(value)
                assert function.stats.bytes_to_device == moved + 24
        assert function.stats.compilations == [1]
        with pytest.raises(TypeError):
            function(np.array([1j]))


def test_a_loaded_function_refuses_what_is_symbolic(tmp_path):
    x = pt.dvector("x")
    built = pytensor.function([x], pt.exp(x), mode=BUILT)
    built(np.ones(2))
    save(built, tmp_path / "f")
    loaded = load(tmp_path / "f")
    for value in (x, pt.dscalar(), pt.constant(np.ones(2)), pytensor.shared(np.ones(2))):
        assert [found(built, value)[0], found(loaded, value)[0]] == [TypeError, TypeError]


@pytest.mark.parametrize("downcast", [None, True])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("abc", ValueError),
        ([[1.0], [2.0, 3.0]], ValueError),
        ({1: 2}, TypeError),
        ([object()], TypeError),
    ],
    ids=["text", "a ragged list", "a dictionary", "an object"],
)
def test_a_loaded_function_names_the_input_that_numpy_refuses(tmp_path, value, error, downcast):
    v = pt.dvector("v")
    inputs = [pytensor.In(v, allow_downcast=downcast)]
    save(pytensor.function(inputs, doubled(v, is_array=True), mode=BUILT), tmp_path / "f")
    with pytest.raises(error, match=r"(?s)v: expected Vector.*, found .*PJL816"):
        load(tmp_path / "f")(value)


@pytest.mark.parametrize("options", [{}, {"outputs": "numpy"}, {"dynamic": True}], ids=repr)
@pytest.mark.parametrize(
    ("graph", "seen", "value", "expected"),
    [
        (lambda n, x: pt.zeros(n), (2, 3), np.array(2.0), [0, 0]),
        (lambda n, x: pt.arange(10)[:n], (2, 3), np.array([2]), [0, 1]),
        (lambda n, x: x + 1, ([1.0], [1.0, 2]), np.float64(2), [3]),
        (lambda n, x: x + 1, ([1.0], [1.0, 2]), np.array(2), [3]),
        (lambda n, x: x[x > 0], ([1.0], [1.0, 2]), "text", ValueError),
    ],
)
def test_trusted_arguments_of_other_ranks_after_padded_ones(graph, seen, value, expected, options):
    n, x = pt.lscalar("n"), pt.dvector("x")
    v = n if np.ndim(seen[0]) == 0 else x
    f = pytensor.function([v], graph(n, x), mode=JAXLinker(**options))
    f.trust_input = True
    for each in seen:
        f(np.asarray(each))
    if expected is ValueError:
        with pytest.raises(ValueError, match="text"):
            f(value)
    else:
        np.testing.assert_array_equal(f(value), expected)
