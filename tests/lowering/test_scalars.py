"""Operations on PyTensor's scalars, which are those on arrays without axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker
from tests.edges.compare import outcome
from tests.helpers import PYTHON, sort_down

CASES = {
    "convert_to_uint16": (ps.convert_to_uint16, ["float64"], [(-2.0,), (np.inf,), (np.nan,)]),
    "convert_to_int64": (ps.convert_to_int64, ["float32"], [(1e30,), (-np.inf,), (3.7,)]),
    "convert_to_int8": (ps.convert_to_int8, ["int64"], [(200,), (-129,)]),
    "int_div": (ps.int_div, ["uint8", "uint8"], [(7, 0), (7, 2)]),
    "add": (ps.add, ["int8", "int8"], [(100, 100), (-1, 1)]),
    "true_div": (ps.true_div, ["float32", "int64"], [(1.0, 3), (1.0, 0)]),
    "pow": (ps.pow, ["uint8", "uint8"], [(2, 200), (3, 3)]),
    "tri_gamma": (ps.tri_gamma, ["float64"], [(np.inf,), (0.5,)]),
    "switch": (ps.switch, ["bool", "float32", "int64"], [(1, 0.5, 2), (0, 0.5, 2)]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"jit": False}])
@pytest.mark.parametrize("name", CASES)
def test_as_on_arrays(name: str, options: dict[str, Any]) -> None:
    op, dtypes, calls = CASES[name]
    inputs = [getattr(ps, dtype)() for dtype in dtypes]
    f, reference = (
        pytensor.function(inputs, op(*inputs), mode=mode) for mode in (JAXLinker(**options), PYTHON)
    )
    assert f.explain().graph_break_count == 0
    for call in calls:
        given = [np.asarray(v).astype(d)[()] for v, d in zip(call, dtypes, strict=True)]
        found, expected = outcome(f, *given), outcome(reference, *given)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_an_operation_of_the_users() -> None:
    """It has no rule, on scalars as on arrays, and the explanation has its line."""

    class Odd(ps.UnaryScalarOp):
        def impl(self, x: float) -> float:
            return float(sort_down(np.array([x, 1.0]))[0])

    x = ps.float64("x")
    f = pytensor.function([x], Odd(ps.same_out, name="odd")(x), mode="JAXSELECTIVE")
    assert f(np.float64(3.0)) == 3
    [found] = f.explain().breaks
    assert "odd" in str(found).lower()
    assert "test_scalars.py" in str(found)


def test_lengths_that_scalars_compute() -> None:
    x, n = pt.dvector("x"), ps.int64("n")
    f, reference = (
        pytensor.function([x, n], [x[: ps.add(n, np.int8(1))], pt.zeros(ps.mul(n, n))], mode=mode)
        for mode in ("JAXSELECTIVE", PYTHON)
    )
    for length in (1, 2, 3, 4):
        for one, other in zip(
            f(np.arange(4.0), length), reference(np.arange(4.0), length), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["complex128", "bool", "float32"])
def test_zero_to_a_complex_power(dtype: str) -> None:
    base, exponent = pt.vector("base", dtype=dtype), pt.zvector("exponent")
    f, reference = (
        pytensor.function([base, exponent], base**exponent, mode=mode)
        for mode in ("JAXSELECTIVE", PYTHON)
    )
    powers = np.array([1 + 2j, 0, 2, -1, 1j, -1 + 2j, 2.5])
    given = np.zeros(7, dtype), powers
    np.testing.assert_array_equal(outcome(f, *given), outcome(reference, *given))
