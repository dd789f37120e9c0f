"""Operations on arrays of two types compute in PyTensor's common type, not in JAX's.

JAX makes float32 of that and 64-bit integers, and float16 of that and any; PyTensor float64.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, or_, xor
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.signal import convolve1d, convolve2d

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.compat import computes_in_pairs
from tests.edges.compare import same
from tests.edges.known import OLD
from tests.helpers import as_list, assert_same, compile_both

LARGE = 2**31 - 3  # float32 has 24 bits
PAIRS = [("float32", "int64"), ("complex64", "int64"), ("uint64", "int64")]
PAIRS += [] if OLD else [("float16", "uint32")]  # Numba, which PyTensor 3.0 asks, has none


def _definite(m: Any) -> Any:
    return pt.abs(m) @ pt.abs(m).T + pt.eye(2, dtype=m.dtype) * 3


GRAPHS: dict[str, Callable[[Any, Any], Any]] = {
    "joined": lambda m, n: pt.concatenate([m, n]),
    "joined after": lambda m, n: pt.concatenate([n, m], axis=1),
    "stacked": lambda m, n: pt.stack([m, n]),
    "stacked numbers": lambda m, n: pt.stack([m[0, 0], n[0, 0]]),
    "block diagonal": lambda m, n: pt.linalg.block_diag(m, n),
    "Kronecker product": lambda m, n: pt.linalg.kron(m, n),
    "convolved": lambda m, n: convolve1d(m[0], n[0]),
    "convolved matrices": lambda m, n: convolve2d(m, n),
    "solved": lambda m, n: pt.linalg.solve(_definite(m), n),
    "solved, triangular": lambda m, n: pt.linalg.solve_triangular(_definite(m), n),
    "solved by a factor": lambda m, n: pt.linalg.cho_solve((_definite(m), True), n),
    "product": lambda m, n: m @ n,
    "chosen": lambda m, n: pt.switch(pt.eye(2), m, n),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_values(name: str, one: str, other: str) -> None:
    m, n = pt.matrix("m", dtype=one), pt.matrix("n", dtype=other)
    f, reference = compile_both([m, n], GRAPHS[name](m, n))
    # The factor of what is definite is exact, wherever it is computed.
    given = np.array([[3, 2], [2, 1]], one), np.array([[LARGE, 7], [5, LARGE - 2]], other)
    for found, expected in zip(as_list(f(*given)), as_list(reference(*given)), strict=True):
        assert same(np.asarray(found), np.asarray(expected), rtol=1e-13, signs_of_zero=False)


def test_functions_of_real_numbers_refuse_a_complex_number_in_any_place() -> None:
    x, z = pt.dvector("x"), pt.zvector("z")
    for function in compile_both([x, z], pt.arctan2(x, z)):
        with pytest.raises(TypeError):
            function(np.ones(2), np.ones(2, "complex128"))


@pytest.mark.parametrize("op", [or_, and_, xor])
@pytest.mark.parametrize("signed", ["int8", "int64"])
def test_bits_of_unsigned_and_signed_integers(op: Any, signed: str) -> None:
    """PyTensor declares a float64; the Python linker raises, or computes where it has fused."""
    u, i = pt.vector("u", dtype="uint64"), pt.vector("i", dtype=signed)
    f = pytensor.function([u, i], [op(u, i), op(i, u), op(u, i) / 2.0], mode="JAXSELECTIVE")
    given = np.array([81, 0, 2**63 + 5, 2**64 - 1], "uint64"), np.array([1, -1, -128, 3], signed)
    expected = op(given[0], given[1].astype("uint64")).astype("float64")
    for found, other in zip(f(*given), (expected, expected, expected / 2), strict=True):
        assert found.dtype == "float64"
        np.testing.assert_array_equal(found, other)
    assert f.stats.fallbacks == 0


TYPES = ("bool", "int8", "uint64", "float16")


@pytest.mark.skipif(not computes_in_pairs(), reason="PyTensor takes Python's numbers here")
@pytest.mark.parametrize("op", [pt.add, pt.mul])
@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", TYPES)
def test_three_arrays(op: Any, first: str, second: str) -> None:
    """The Python linker takes the first two in their own type."""
    arrays = [pt.vector(dtype=dtype) for dtype in (first, second, "float32", "complex64")]
    outputs = [op(*arrays[:2], other) for other in (arrays[0], *arrays[2:])]
    outputs += [op(other, *arrays[:2]) for other in arrays[2:]]
    outputs += [op(*arrays, arrays[0]), op(op(*arrays[:2]), *arrays[2:])]
    for output in outputs:
        f, reference = compile_both(arrays, output)
        rng = np.random.default_rng(0)
        given = [_large(rng, dtype) for dtype in (first, second, "float32", "complex64")]
        with np.errstate(all="ignore"):
            try:
                expected = reference(*given)
            except OverflowError:  # of Python's numbers: `docs/same_results.md`
                continue
        assert same(np.asarray(f(*given)), np.asarray(expected), rtol=1e-5, signs_of_zero=False)


def _large(rng: np.random.Generator, dtype: str) -> np.ndarray:
    if dtype[0] in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 9, dtype=dtype)
    return (rng.normal(size=9) * (1e4 if dtype == "float16" else 10)).astype(dtype)


@pytest.mark.parametrize("rewriting", ["fast_run", None])
def test_types_that_rewrites_choose(rewriting: str | None) -> None:
    """PyTensor's rewrites square in uint8, and convert before they negate (docs/upstream.md)."""
    pixels, n, y = pt.vector("pixels", dtype="uint8"), pt.bscalar("n"), pt.dscalar("y")
    outputs = [pixels**2, pt.ones((n, n)).sum(), y - pixels, -pixels + y, (pixels * n).sum()]
    given = (np.array([100, 200], "uint8"), 100, 0.5)
    f, reference = (
        pytensor.function([pixels, n, y], outputs, mode=mode)
        for mode in (
            Mode(JAXLinker(), rewriting),
            Mode("py", rewriting).excluding("fusion", "inplace"),
        )
    )
    assert_same(f(*given), reference(*given))
    assert int(np.asarray(f(*given)[0])[0]) == (10_000 if rewriting is None else 10_000 % 256)


def test_a_choice_among_more_arrays_than_numpy_takes() -> None:
    f, reference = compile_both([], pt.choose(pt.zeros(2, dtype="int64"), pt.ones((65, 2))))
    assert np.array_equal(f(), np.ones(2))
    with pytest.raises(ValueError, match="at most"):
        reference()
