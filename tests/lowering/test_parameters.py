"""Rules look at each parameter of an operation, and at the types of all arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor import sparse
from pytensor.graph.traversal import explicit_graph_inputs
from pytensor.tensor.blas import Gemm, Gemv
from pytensor.tensor.linalg import pivot_to_permutation
from pytensor.tensor.signal import convolve1d, convolve2d

from tests.edges.compare import assert_as_in_python

L, B, D, F, Z = pt.lmatrix("l"), pt.lvector("b"), pt.dmatrix("d"), pt.fmatrix("f"), pt.zmatrix("z")
T, X, Y, C = pt.dtensor3("t"), pt.dvector("x"), pt.dvector("y"), pt.zvector("c")
U, LENGTHS = pt.vector("u", dtype="uint64"), pt.lvector("lengths")

DRAWS = np.random.default_rng(0)
WHOLE = np.array([[5, 2], [2, 11]])
NAN = np.nan
HERMITIAN = np.array([[4 + 1j, 1 - 1j, 0.5], [1 + 1j, 5 - 2j, 2j], [0.5, -2j, 6 + 3j]])

CASES: dict[str, tuple[list[Any], Any, list[Any]]] = {
    "factor of integers": ([L], pt.linalg.cholesky(L), [(WHOLE,), (-WHOLE,)]),
    "definite system of integers": (
        [L, B],
        pt.linalg.solve(L, B, assume_a="pos"),
        [(WHOLE, np.array([1, 3]))],
    ),
    "complex least squares": ([Z, D], pt.linalg.lstsq(Z, D, -1.0), [(HERMITIAN, np.ones((3, 1)))]),
    "singular tensor": (
        [T, X],
        pt.linalg.tensorsolve(T, X),
        [(DRAWS.normal(size=(6, 2, 3)), np.arange(6.0)), (np.zeros((6, 2, 3)), np.arange(6.0))],
    ),
    "stretched product": (
        [Y, D, X],
        Gemv(inplace=False)(Y, 3.0, D, X, 2.0),
        [(np.ones(3), np.ones((rows, 2)), np.ones(2)) for rows in (3, 1)],
    ),
    "choice by uint64": ([U, D], pt.choose(U, D), [(np.array([0, 1], "uint64"), np.ones((2, 2)))]),
}
CASES |= {
    f"Hermitian system, lower={lower}": (
        [Z, C],
        pt.linalg.solve(Z, C, assume_a="her", lower=lower),
        [(HERMITIAN, np.array([1, 2j, 3]))],
    )
    for lower in (True, False)
}
CASES |= {
    f"tensor with axes {axes}": (
        [T, X],
        pt.linalg.tensorsolve(T, X, axes),
        [(DRAWS.normal(size=(3, 2, 6)), DRAWS.normal(size=6))],
    )
    for axes in ((1, 0), (0, 1))
}
CASES |= {
    f"exponential of {matrix}": ([D], pt.linalg.expm(D), [(np.array(matrix),)])
    for matrix in (
        [[-1e6, 0.0], [0.0, -1.0]],
        [[0.0, 1e6], [0.0, 0.0]],
        [[0.0, -1e4], [1e4, 0.0]],
        [[1.0, 2.0], [3.0, 4.0]],
        [[NAN, 0.0], [0.0, 1.0]],
    )
}
CASES |= {
    f"exponential in float32 of {matrix}": (
        [F],
        pt.linalg.expm(F),
        [(np.array(matrix, "float32"),)],
    )
    for matrix in (
        [[1000.0, 0.0], [0.0, 1.0]],
        [[0.0, -1000.0], [1000.0, 0.0]],
        [[0.1, 0.2], [0.3, 0.1]],
    )
}
CASES |= {
    f"places in order {order}": (
        [B, LENGTHS],
        list(pt.unravel_index(B, (LENGTHS[0], LENGTHS[1]), order=order)),
        [(np.array([0, 5]), np.array(lengths)) for lengths in ([2, 3], [-2, -3], [0, 3])],
    )
    for order in ("C", "F")
}
CASES |= {
    f"places of type {dtype} in order {order}": (
        [places := pt.vector("places", dtype=dtype), LENGTHS],
        list(pt.unravel_index(places, (LENGTHS[0], LENGTHS[1]), order=order)),
        [(np.array([0, 58, 87], dtype), np.array(lengths)) for lengths in ([3, wide], [wide, 3])],
    )
    for dtype, wide in (("int8", 200), ("int16", 66_000))
    for order in ("C", "F")
}
COMPLEX = pt.vector("complex", dtype="complex64")
CASES["largest of complex numbers"] = (
    [COMPLEX],
    COMPLEX.max(),
    [(np.array(v, "complex64"),) for v in ([NAN, -2], [1, complex(0, NAN)], [1, 2j], [3j, 3])],
)
CASES |= {
    f"largest along {axis}": (
        [Z],
        Z.max(axis=axis),
        [(np.array([[1, NAN, 2j], [complex(0, NAN), 3, -1]]),), (np.zeros((0, 3)),)],
    )
    for axis in (0, 1, (0, 1))
}

PIVOTS = pt.ivector("pivots")
CASES |= {
    f"exchanges of rows, inverse={inverse}": (
        [PIVOTS],
        pivot_to_permutation(PIVOTS, inverse=inverse),
        [
            (np.array(places, "int32"),)
            for places in ([1, 1, 2], [3, 1, 1], [-1, 0, 0], [5, 0], [-3, 1, 1], [-4, 1, 1], [])
        ],
    )
    for inverse in (True, False)
}
MATRICES = DRAWS.normal(size=(2, 3)), DRAWS.normal(size=(3, 4)), DRAWS.normal(size=(4, 2))
CASES |= {
    f"product {subscripts}": (
        [D, D2 := pt.dmatrix("d2"), D3 := pt.dmatrix("d3")],
        pt.einsum(subscripts, D, D2, D3),
        [
            MATRICES,
            *(
                [part if k == place else each for k, each in enumerate(MATRICES)]
                for place, whole in enumerate(MATRICES)
                for part in (whole[:1], whole[:, :1])
            ),
        ],
    )
    for subscripts in ("ij,jk,kl->il", "ij,jk,ki->", "ij,jk,km->jm")
}
CASES["product of integers and float32"] = (
    [L, F, D],
    pt.einsum("ij,jk,kl->il", L, F, D),
    [(WHOLE * 10**8 + 1, np.ones((2, 2), "float32"), np.eye(2))],
)
ODD = [1.0, 0.0, -2.0, 3.0, np.inf, -np.inf, NAN]
CASES |= {
    f"convolution {mode}": (
        [X, Y],
        convolve1d(X, Y, mode=mode),
        [(DRAWS.choice(ODD, n), DRAWS.choice(ODD[: 4 + n], 3)) for n in (5, 3, 2, 1)],
    )
    for mode in ("full", "valid", "same")
}
CASES["convolution of matrices"] = (
    [D, D2],
    convolve2d(D, D2),
    [(DRAWS.choice(ODD, (3, 4)), DRAWS.choice(ODD[: n + 3], (2, n))) for n in (1, 2, 3)],
)
S, V = sparse.csr_matrix("s", dtype="int64"), pt.vector("v", dtype="float32")
ENTRIES = scipy.sparse.csr_matrix(np.array([[2**40 + 1, 0], [3, 2**50 + 1]]))
TENTHS = np.array([[0.1, 0.2], [0.3, 0.4]], "float32")
CASES |= {
    f"sparse integers and float32: {name}": ([S, F, V], output, [(ENTRIES, TENTHS, TENTHS[0])])
    for name, output in {
        "product": sparse.structured_dot(S, F),
        "product with a vector": sparse.dot(S, V),
        "sum": sparse.add(S, F),
        "entries": sparse.dense_from_sparse(sparse.multiply(S, F)),
        "scaled": sparse.dense_from_sparse(sparse.col_scale(S, V)),
    }.items()
}

UNREAD = np.array([[1.0, NAN], [2.0, 3.0]])
CASES |= {
    "vector that is added 0 times": (
        [Y, D, X],
        Gemv(inplace=False)(Y, np.float64(3), D, X, np.float64(0)),
        [(UNREAD[0], np.ones((2, k)), np.ones(k)) for k in (3, 0)],
    ),
    "matrix that is added 0 times": (
        [D, D2, D3],
        Gemm(inplace=False)(D, np.float64(3), D2, D3, np.float64(0)),
        [(UNREAD, np.ones((2, k)), np.ones((k, 2))) for k in (3, 0)],
    ),
    "transform of nothing": (
        [D, D2],
        convolve2d(D, D2, method="fft"),
        [(np.ones(one), np.ones(two)) for one in ((3, 3), (0, 3)) for two in ((2, 2), (0, 2))],
    ),
}

COMPLEX_NAN = np.array([1 + NAN * 1j, 2, 0.5, complex(NAN, 1), complex(NAN, NAN), NAN * 1j, 1])
ABOVE = np.array([2**24, 2**24 + 1])
RUNNING = pt.cumsum(pt.bvector("i8"))
[EIGHT] = explicit_graph_inputs([RUNNING])
CASES |= {
    f"inverse of what is nearly singular, {array}": (
        [array],
        pt.linalg.pinv(array, hermitian=hermitian),
        [(np.diag([1, small]).astype(array.type.dtype),) for small in (1e-7, 2e-15, 5e-16)],
    )
    for array, hermitian in ((F, False), (D, True))
}
CASES |= {
    f"places of {value.type.dtype} among {array.type.dtype}, {side}": (
        [array, value],
        pt.searchsorted(array, value, side=side),
        [(one.astype(array.type.dtype), other.astype(value.type.dtype))],
    )
    for side in ("left", "right")
    for array, value, one, other in (
        (B, V, ABOVE, ABOVE[:1]),
        (V, B, ABOVE[:1], ABOVE),
        (pt.wvector(), pt.vector(dtype="float16"), np.array([2048, 2049]), np.array([2048])),
    )
}
CASES |= {
    f"order of complex NaN along {axis}": (
        [Z],
        [pt.sort(Z, axis=axis), pt.argsort(Z, axis=axis, kind="stable")],
        [(np.stack([COMPLEX_NAN, COMPLEX_NAN[::-1]]),), (np.zeros((0, 2), complex),)],
    )
    for axis in (0, -1)
}
CASES |= {
    "one count for all entries": (
        [X, Y],
        pt.repeat(X, pt.full((Y.shape[0],), 2)),
        [(np.arange(3.0), np.ones(n)) for n in (1, 3, 2)] + [(np.ones(0), np.ones(1))],
    ),
    "increment of each place once": (
        [X, B, Y],
        pt.inc_subtensor(X[B], Y, ignore_duplicates=True),
        [(np.arange(4.0), np.array([0, 0]), np.ones(n)) for n in (2, 1)],
    ),
    "parts of a running sum": (
        [EIGHT],
        [
            pt.cast(each, "int64")
            for each in (
                *pt.split(RUNNING, [1, 3], n_splits=2),
                pt.fill_diagonal(RUNNING.reshape((2, 2)), 1),
            )
        ],
        [(np.array([100, 100, -50, 120], "int8"),)],
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_in_python(name: str) -> None:
    assert_as_in_python(*CASES[name])
