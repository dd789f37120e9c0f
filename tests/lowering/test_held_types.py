"""Values of other types than their Ops declare: NumPy's 64 bits, or real numbers for integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor import sparse
from pytensor.scan import scan

from pytensor_jaxlink import JAXLinker, load, save
from pytensor_jaxlink.ops import held_dtype
from tests.helpers import PYTHON

X, N = pt.dvector("x"), pt.bvector("n")
U = pt.abs(N).astype("uint8")
ONES = np.ones(70)
CALLS = (
    (np.array([1.0, -1.0, 2.0, 3.0]), np.array([100, 100, 100, 1], "int8")),
    (np.array([1.0, -1.0]), np.array([-100, -100], "int8")),
    (ONES, ONES.astype("int8")),
)

GRAPHS: dict[str, Callable[[], Any]] = {
    "counted": lambda: pt.cumsum(X > 0)[-1] * 1.0,
    "places": lambda: X[pt.cumsum(X > 0) - 1],
    "indices": lambda: pt.inc_subtensor(pt.zeros(99)[pt.cumsum(X > 0)], X),
    "ranks of some": lambda: pt.cumsum(X > 0)[X > 0] - 1,
    "some": lambda: pt.cumsum(N)[X > 0].sum(),
    "of some": lambda: pt.cumsum(N[X > 0]).sum(),
    "sum": lambda: pt.cumsum(N).sum(),
    "mean": lambda: pt.cumsum(N)[::-1].mean(),
    "product": lambda: pt.cumprod(N).sum(),
    "unsigned": lambda: pt.cumsum(U).sum(),
    "compared": lambda: pt.cumsum(N) > 90,
    "converted": lambda: pt.cumsum(N).astype("float64"),
    "with reals": lambda: pt.cumsum(N) * X,
    "reshaped": lambda: pt.cumsum(N)[:, None].reshape((1, -1)).sum(),
    "written to": lambda: pt.set_subtensor(pt.cumsum(N)[0], 1).sum(),
    "repeated": lambda: pt.repeat(pt.cumsum(X > 0), 2).sum(),
    "twice": lambda: pt.cumsum(pt.cumsum(N)).sum(),
    "remainder": lambda: N % pt.cumsum(N),
    "remainder of it": lambda: pt.cumsum(N) % N,
    "quotient": lambda: N // pt.cumsum(N),
    "quotient of unsigned": lambda: U // pt.cumsum(U),
    "power": lambda: pt.abs(N) ** pt.cumsum(pt.abs(N)),
    "the larger": lambda: pt.maximum(pt.cumsum(pt.cast(N, "int16") * 99), N),
    "compared with others": lambda: pt.cumsum(pt.cast(N, "int16") * 99) >= N,
    "compared, unsigned": lambda: pt.cumsum(U) >= N,
    "scalar product": lambda: pt.dot(pt.cumsum(N), N) * 1.0,
    "scalar product with reals": lambda: pt.dot(X, pt.cumsum(N)),
    "scalar product with narrow reals": lambda: pt.dot(pt.cast(X, "float32"), pt.cumsum(N)),
    "matrix product": lambda: pt.dot(pt.cumsum(N)[:, None], N[None, :]) * 1.0,
    "matrix product, transposed": lambda: pt.dot(pt.cumsum(pt.outer(N, N), axis=0).T, N).sum(),
    "a product of products": lambda: pt.dot(pt.dot(pt.outer(N, N), pt.cumsum(N)), N) * 1.0,
    "matmul": lambda: pt.matmul(pt.cumsum(N), pt.outer(N, N)) * 1.0,
    "batches": lambda: pt.matmul(pt.cumsum(N)[None, None], pt.outer(N, N)[None]).sum(),
    "sum of three": lambda: pt.add(N, pt.cumsum(N), X),
    "searched": lambda: pt.searchsorted(pt.cumsum(pt.abs(N)), pt.abs(N)),
    "counts, incremented": lambda: pt.inc_subtensor(pt.cumsum(X > 0)[1], X[0] > 0),
    "counts, incremented between": lambda: pt.inc_subtensor(pt.cumsum(X > 0)[:2], X[0] > 0),
    "counts, incremented at places": lambda: pt.inc_subtensor(
        pt.cumsum(X > 0)[[0, 0, 1]], X[0] > 0
    ),
    "counts, incremented by a mask": lambda: pt.inc_subtensor(
        pt.cumsum(X > 0)[X > 0], X[0] > 0
    ).sum(),
    "incremented": lambda: pt.inc_subtensor(pt.cumsum(N)[1], N[0]),
    "incremented between": lambda: pt.inc_subtensor(pt.cumsum(N)[N[-1] % 2 :], N[0]).sum(),
    "incremented at places": lambda: pt.inc_subtensor(pt.cumsum(N)[[0, 0, 1]], N[0]) * X,
    "incremented by a mask": lambda: pt.inc_subtensor(pt.cumsum(N)[X > 0], N[0]),
    "incremented by its parts": lambda: pt.inc_subtensor(pt.cumsum(N)[X > 0], pt.cumsum(N)[X > 0]),
    "written to by a mask": lambda: pt.set_subtensor(pt.cumsum(N)[X > 0], N[0]),
    "written to between": lambda: pt.set_subtensor(pt.cumsum(N)[N[-1] % 2 : 3], N[0]).sum(),
    "returned": lambda: pt.cumsum(N),
    "returned counts": lambda: pt.cumsum(X > 0),
    "returned products": lambda: pt.cumprod(N[:, None], axis=0),
    "returned, unsigned": lambda: pt.cumsum(U)[::-1],
    "returned selection": lambda: pt.cumsum(N)[X > 0],
    "returned scalar product": lambda: pt.dot(pt.cumsum(N), N),
    "returned product with narrow reals": lambda: pt.dot(pt.cast(X, "float32"), pt.cumsum(N)),
    "returned twice": lambda: [pt.cumsum(N), pt.cumsum(N)[1:], pt.cumsum(N)],
}


def functions(name: str, **options: Any) -> tuple[Any, Any]:
    made = [
        pytensor.function([X, N], GRAPHS[name](), mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(**options), PYTHON)
    ]
    return made[0], made[1]


@pytest.mark.parametrize("name", GRAPHS)
def test_values(name: str) -> None:
    f, reference = functions(name)
    for call in CALLS:
        assert_same(name, f(*call), reference(*call))


def assert_same(name: str, found: Any, expected: Any) -> None:
    """The dtype, too, of a running sum; that of a result of an operation on it is the declared."""
    pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
    for one, other in pairs:
        assert one.dtype == other.dtype or not name.startswith("returned")
        np.testing.assert_allclose(one, other)


@pytest.mark.filterwarnings("ignore:region . was compiled")
@pytest.mark.parametrize(
    "name", ["ranks of some", "some", "counted", "returned counts", "returned twice"]
)
def test_other_ways(name: str, tmp_path: Any) -> None:
    for options in ({"recompile_limit": 1, "dynamic": False}, {"dynamic": True}, {"jit": False}):
        f, reference = functions(name, **options)
        for call in CALLS:
            assert_same(name, f(*call), reference(*call))
    f, reference = functions(name)
    f(*CALLS[0])
    save(f, tmp_path / "f")
    save(f, tmp_path / "compiled", graph=False)
    for path in (tmp_path / "f", tmp_path / "compiled"):
        assert_same(name, load(path)(*CALLS[0]), reference(*CALLS[0]))


def test_sums_of_sparse_matrices() -> None:
    s = sparse.csr_matrix("s", dtype="int8")
    graph = [sparse.sp_sum(s) * 1.0, sparse.sp_sum(s, axis=0).sum(), sparse.sp_sum(s, axis=1) > 99]
    full = scipy.sparse.csr_matrix(np.full((3, 3), 100, "int8"))
    for mode in (JAXLinker(), PYTHON):
        total, columns, rows = pytensor.function([s], graph, mode=mode)(full)
        assert (total, columns, np.asarray(rows).all()) == (900, 900, True)


def test_an_update_has_the_declared_type() -> None:
    total = pytensor.shared(np.zeros(4, "int8"))
    outputs = [pt.cumsum(N).sum(), pt.cumsum(N)]
    f = pytensor.function([N], outputs, updates={total: pt.cumsum(N)}, mode=JAXLinker())
    summed, running = f(CALLS[0][1])
    assert summed == 100 + 200 + 300 + 301
    np.testing.assert_array_equal(running, [100, 200, 300, 301])
    np.testing.assert_array_equal(total.get_value(), np.array([100, -56, 44, 45], "int8"))


M = pt.lmatrix("m")
T4, T3 = (pt.tensor(f"t{ndim}", shape=(None,) * ndim, dtype="int64") for ndim in (4, 3))
FACTORS = pt.linalg.lu_factor(M)[0]
DRAWS = np.random.default_rng(0)
WHOLE = np.array([[5, 2], [2, 11]])
REAL: dict[str, tuple[list[Any], Any, list[Any]]] = {
    "factors": ([M], FACTORS, [WHOLE]),
    "half of the factors": ([M], FACTORS * 0.5, [WHOLE]),
    "a row": ([M], FACTORS[1], [WHOLE]),
    "diagonal": ([M], pt.diag(FACTORS), [WHOLE]),
    "sorted": ([M], pt.sort(FACTORS), [WHOLE]),
    "running sum": ([M], pt.cumsum(FACTORS), [WHOLE]),
    "in a loop": (
        [M],
        scan(
            lambda m: pt.linalg.lu_factor(m)[0], outputs_info=[M], n_steps=2, return_updates=False
        )[-1],
        [WHOLE],
    ),
    "of a batch": (
        [T3],
        pt.vectorize(lambda m: pt.linalg.lu_factor(m)[0], signature="(m,m)->(m,m)")(T3) * 1.0,
        [np.stack([WHOLE, WHOLE + 1])],
    ),
    "solution": (
        [M, B := pt.lvector("b")],
        pt.linalg.lu_solve(pt.linalg.lu_factor(M), B),
        [WHOLE, np.array([1, 3])],
    ),
    "inverse": ([T4], pt.linalg.tensorinv(T4), [DRAWS.integers(1, 9, (2, 3, 3, 2))]),
    "tensors": ([T3, B], pt.linalg.tensorsolve(T3, B), [DRAWS.integers(1, 9, (6, 2, 3)), [1] * 6]),
}


@pytest.mark.parametrize("name", REAL)
def test_real_numbers_that_are_declared_integers(name: str, tmp_path: Any) -> None:
    inputs, output, call = REAL[name]
    f, reference = (pytensor.function(inputs, output, mode=m) for m in (JAXLinker(), PYTHON))
    expected = reference(*call)
    f.compile(*call)
    save(f, tmp_path / "f", dims=None)
    save(f, tmp_path / "compiled", graph=False, dims=None)
    for function in (f, load(tmp_path / "f"), load(tmp_path / "compiled")):
        found = np.asarray(function(*call))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected)


def test_a_tower_of_products_is_walked_once() -> None:
    matrix: Any = pt.fmatrix("m")
    for _ in range(60):
        matrix = pt.dot(matrix, matrix)
    assert held_dtype(matrix) is None
    for _ in range(2000):
        matrix = pt.dot(matrix, matrix.T)
    assert held_dtype(matrix) is None
