"""Every Op of linear algebra on matrices at the edges of what it takes.

The tables are by the name of the Op's class.  A case compiles one function, calls it with matrices
that are regular, singular, empty, not square, or hold NaN and infinity, and compares dtypes, shapes
and exceptions with the Python linker, and values as far as the Op determines them: of eigenvectors
and singular vectors, which have no sign of their own, their products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.op import Op
from pytensor.tensor import linalg as ptl

from tests.edges.compare import difference, outcome, quick
from tests.helpers import PYTHON

Arrays = Sequence[np.ndarray]


def _as_they_are(inputs: Arrays, outputs: Arrays) -> Arrays:
    return outputs


def _adjoint(matrix: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(matrix, -1, -2))


def _by_eigenvectors(inputs: Arrays, outputs: Arrays) -> Arrays:
    """Eigenvalues in order, and the matrix that they make."""
    values, vectors = outputs
    together = (vectors * values[..., None, :]) @ _adjoint(vectors)
    return [values, together]


def _by_any_eigenvectors(inputs: Arrays, outputs: Arrays) -> Arrays:
    """Eigenvalues sorted, and how far the vectors are from being eigenvectors of length 1."""
    values, vectors = outputs
    rest = inputs[0] @ vectors - vectors * values[..., None, :]
    return [
        np.sort(values, axis=-1),
        np.isclose(rest, 0, atol=1e-6 * np.abs(inputs[0]).max(initial=1)),
        np.linalg.norm(vectors, axis=-2).round(9),
    ]


def _by_singular_vectors(inputs: Arrays, outputs: Arrays) -> Arrays:
    left, values, right = outputs
    count = values.shape[-1]
    together = (left[..., :count] * values[..., None, :]) @ right[..., :count, :]
    squares = [left @ _adjoint(left), right @ _adjoint(right)]
    return [values, together.round(9), *[square.round(9) for square in squares]]


def _by_product(inputs: Arrays, outputs: Arrays) -> Arrays:
    """Of factors Q and R: their product, that Q is orthogonal, and the size of R's entries."""
    q, r, *others = outputs
    return [(q @ r).round(9), (_adjoint(q) @ q).round(9), np.abs(r).round(9), *others]


def _by_sizes(inputs: Arrays, outputs: Arrays) -> Arrays:
    return [np.abs(each).round(9) for each in outputs]


def _by_similarity(inputs: Arrays, outputs: Arrays) -> Arrays:
    """Of a Schur form: the matrix that it makes, the eigenvalues, and that Z is unitary."""
    t, z = outputs
    if not t.size:
        return outputs
    values = np.sort(np.linalg.eigvals(t).round(6)) if np.isfinite(t).all() else t
    return [(z @ t @ _adjoint(z)).round(9), values, (z @ _adjoint(z)).round(9)]


@dataclass(frozen=True)
class Case:
    """A graph of matrices around one Op.

    Attributes
    ----------
    op
        The name of the class of the Op.
    graph
        Makes the outputs from the inputs.
    count
        How many matrices are given; all but the first are regular where the first is not.
    compared
        Makes what is compared from the inputs and the outputs.
    vectors
        The positions of the inputs that are vectors.
    regular
        Whether only regular matrices are given; a comment at the case says why.
    """

    op: str
    graph: Callable[..., Any]
    count: int = 1
    compared: Callable[[Arrays, Arrays], Arrays] = _as_they_are
    vectors: tuple[int, ...] = ()
    regular: bool = False


CASES: dict[str, Case] = {
    "cholesky": Case("Cholesky", lambda a: ptl.cholesky(a)),
    "cholesky, upper": Case("Cholesky", lambda a: ptl.cholesky(a, lower=False)),
    "eig": Case("Eig", ptl.eig, compared=_by_any_eigenvectors),
    "eigh": Case("Eigh", lambda a: ptl.eigh(a), compared=_by_eigenvectors),
    "eigh, upper": Case("Eigh", lambda a: ptl.eigh(a, lower=False), compared=_by_eigenvectors),
    "eigh, two": Case("Eigh", lambda a, b: ptl.eigh(a, b)[0], 2),
    "eigvalsh": Case("Eigvalsh", lambda a: ptl.eigvalsh(a)),
    "eigvalsh, upper": Case("Eigvalsh", lambda a: ptl.eigvalsh(a, None, lower=False)),
    "lu": Case("LU", ptl.lu),
    "lu, permuted": Case("LU", lambda a: ptl.lu(a, permute_l=True)),
    "lu, indices": Case("LU", lambda a: ptl.lu(a, p_indices=True)),
    "lu_factor": Case("LUFactor", ptl.lu_factor),
    "pivots": Case("PivotToPermutations", lambda a: ptl.pivot_to_permutation(ptl.lu_factor(a)[1])),
    "qr": Case("QR", lambda a: ptl.qr(a), compared=_by_product),
    "qr, full": Case("QR", lambda a: ptl.qr(a, mode="full"), compared=_by_product),
    "qr, r": Case("QR", lambda a: ptl.qr(a, mode="r"), compared=_by_sizes),
    "qr, raw": Case("QR", lambda a: ptl.qr(a, mode="raw"), compared=_by_sizes),
    "qr, pivoting": Case("QR", lambda a: ptl.qr(a, pivoting=True), compared=_by_product),
    "schur": Case("Schur", lambda a: ptl.schur(a), compared=_by_similarity),
    "schur, complex": Case(
        "Schur", lambda a: ptl.schur(a, output="complex"), compared=_by_similarity
    ),
    "qz": Case("QZ", lambda a, b: ptl.qz(a, b)[:2], 2, _by_sizes),
    "svd": Case("SVD", lambda a: ptl.svd(a), compared=_by_singular_vectors),
    "svd, economic": Case(
        "SVD", lambda a: ptl.svd(a, full_matrices=False), compared=_by_singular_vectors
    ),
    "svd, values": Case("SVD", lambda a: ptl.svd(a, compute_uv=False)),
    "pinv": Case("MatrixPinv", lambda a: ptl.pinv(a)),
    "pinv, hermitian": Case("MatrixPinv", lambda a: ptl.pinv(a, hermitian=True)),
    "inv": Case("MatrixInverse", ptl.inv),
    "matrix_power": Case("MatrixPinv", lambda a: ptl.matrix_power(a, -1)),
    "tensorinv": Case("TensorInv", lambda a: ptl.tensorinv(a, ind=1)),
    "lstsq": Case("Lstsq", lambda a, b: ptl.lstsq(a, b, -1)[0], 2, vectors=(1,)),
    "tensorsolve": Case("TensorSolve", lambda a, b: ptl.tensorsolve(a, b), 2),
    "cho_solve": Case("CholeskySolve", lambda a, b: ptl.cho_solve((a, True), b), 2),
    "solve_triangular": Case(
        "SolveTriangular", lambda a, b: ptl.solve_triangular(a, b, lower=True), 2
    ),
    "solve_triangular, upper, vector": Case(
        "SolveTriangular", lambda a, b: ptl.solve_triangular(a, b, b_ndim=1), 2, vectors=(1,)
    ),
    "solve_triangular, unit": Case(
        "SolveTriangular",
        lambda a, b: ptl.solve_triangular(a, b, lower=True, unit_diagonal=True, trans=1),
        2,
    ),
    **{
        f"solve, {kind}": Case("Solve", lambda a, b, k=kind: ptl.solve(a, b, assume_a=k), 2)
        for kind in ("gen", "sym", "her", "pos", "tridiagonal", "diagonal")
    },
    "solve, vector": Case("Solve", lambda a, b: ptl.solve(a, b, b_ndim=1), 2, vectors=(1,)),
    # Of empty matrices PyTensor's TRSYL leaves no value at all; rounding decides what becomes of
    # equations without a solution.
    "solve_sylvester": Case("SolveSylvester", ptl.solve_sylvester, 3, regular=True),
    "trsyl": Case(
        "TRSYL", lambda a, b, c: _class("TRSYL")()(pt.triu(a), pt.triu(b), c), 3, regular=True
    ),
    "lyapunov": Case(
        "SolveBilinearDiscreteLyapunov",
        lambda a, q: _lyapunov(a, q, "bilinear"),
        2,
        regular=True,
    ),
    "lyapunov, direct": Case("Solve", lambda a, q: _lyapunov(a, q, "direct"), 2, regular=True),
    "are": Case("SolveDiscreteARE", ptl.solve_discrete_are, 4, regular=True),
    "lu_factor_tridiagonal": Case(
        "LUFactorTridiagonal",
        lambda a: _class("LUFactorTridiagonal")()(a[1:, 0], a[:, 0], a[1:, 1]),
    ),
    "lu_solve_tridiagonal": Case(
        "SolveLUFactorTridiagonal",
        lambda a, b: _class("SolveLUFactorTridiagonal")(
            b_ndim=2, overwrite_b=False, transposed=False
        )(*_class("LUFactorTridiagonal")()(a[1:, 0], a[:, 0], a[1:, 1]), b),
        2,
    ),
    "det": Case("Det", ptl.det),
    "slogdet": Case("SLogDet", ptl.slogdet),
    "expm": Case("Expm", ptl.expm),
    "kron": Case("KroneckerProduct", ptl.kron, 2),
    "block_diag": Case("BlockDiagonal", lambda a, b: ptl.block_diag(a, b), 2),
}


# NumPy hands these to LAPACK unseen, which sometimes loops for ever on infinities, `lstsq` also on
# NaN.
ENDLESS = {"Lstsq": (np.isinf, np.isnan), "MatrixPinv": (np.isinf,), "SVD": (np.isinf,)}


def _lyapunov(a: Any, q: Any, method: str) -> Any:
    return ptl.solve_discrete_lyapunov(a, q, method=method)


def _class(name: str) -> Any:
    return family()[name]


def family() -> dict[str, type[Op]]:
    """The Op classes of linear algebra that the installed PyTensor has, by name."""
    found, stack = {}, [Op]
    while stack:
        for kind in stack.pop().__subclasses__():
            stack.append(kind)
            if kind.__module__.startswith("pytensor.tensor.linalg."):
                found[kind.__name__] = kind
    return found


REGULAR = np.array([[4.0, 0.5, -1.0], [0.5, 3.0, 0.25], [-1.0, 0.25, 5.0]])
SKEW = np.array([[1.0, 2.0, -0.5], [0.25, -1.5, 1.0], [3.0, 0.5, 0.75]])


OTHER = np.array([[1.0, 0.5, 0.25], [0.0, 2.0, 1.0], [0.5, -1.0, 3.0]])
FEW = ("symmetric", "skew", "of rank 1", "nan in diagonal", "inf in upper", "of shape (1, 1)")


def matrices(dtype: str = "float64") -> Iterator[tuple[str, np.ndarray]]:
    """Square matrices, and others, by name."""
    kind = np.dtype(dtype).kind
    for name, matrix in _real_matrices():
        if kind in "fc" or np.isfinite(matrix).all():
            scale = 1 + 0.5j * np.triu(np.ones(matrix.shape), 1) if kind == "c" else 1
            with np.errstate(all="ignore"):
                yield name, (matrix * scale).astype(dtype)


def _real_matrices() -> Iterator[tuple[str, np.ndarray]]:
    yield "symmetric", REGULAR
    yield "skew", SKEW
    yield "zero", np.zeros((3, 3))
    yield "of rank 1", np.ones((3, 3))
    yield "of rank 2", np.diag([1.0, 2.0, 0.0])
    yield "negative", -REGULAR
    yield "infinite", np.full((3, 3), np.inf)
    yield "of nan and zero", np.array([[np.nan, 1.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for name, place in (
        ("diagonal", (1, 1)),
        ("corner", (0, 0)),
        ("upper", (0, 2)),
        ("lower", (2, 0)),
    ):
        for value in (np.nan, np.inf):
            changed = REGULAR.copy()
            changed[place] = value
            yield f"{value} in {name}", changed
    yield "nan", np.full((3, 3), np.nan)
    for shape in ((1, 1), (0, 0), (2, 3), (3, 2), (0, 3), (3, 0)):
        yield f"of shape {shape}", REGULAR[: shape[0], : shape[1]]
    for value in (0.0, np.nan, np.inf):
        yield f"of one {value}", np.full((1, 1), value)


def run(full: bool = True) -> list[str]:
    """The differences of all cases; without ``full`` fewer dtypes and no batches."""
    found = []
    for name in CASES:
        found += differences(name, full=full)
        for dtype in ("float32", "complex128", "int64") if full else ():
            found += differences(name, dtype)
        if full:
            found += differences(name, batched=True)
    return found


def differences(
    name: str, dtype: str = "float64", *, batched: bool = False, full: bool = True
) -> list[str]:
    """The differences of one case."""
    case = CASES[name]
    makers = [pt.vector if k in case.vectors else pt.matrix for k in range(case.count)]
    if batched:
        makers[0] = pt.tensor3
    inputs = [make(dtype=dtype) for make in makers]
    try:
        outputs = case.graph(*inputs)
    except Exception:
        return []  # PyTensor has no such graph
    functions = [
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE" if full else quick(), PYTHON)
    ]
    found = []
    for label, single in arguments(case, dtype, full=full):
        given = (_pair(single[0]), *single[1:]) if batched else single
        ours, expected = (_compared(case, function, given) for function in functions)
        for position in range(max(len(ours), len(expected))):
            one, other = (each[min(position, len(each) - 1)] for each in (ours, expected))
            text = difference(case.op, given, other, one, rtol=_tolerance(dtype))
            if text is not None:
                found.append(f"{name}, {label}: {text}")
                break
    return found


def _pair(matrix: np.ndarray) -> np.ndarray:
    """A batch of a regular matrix and this one."""
    rows, columns = matrix.shape
    return np.stack([REGULAR[:rows, :columns].astype(matrix.dtype), matrix])


def _tolerance(dtype: str) -> float:
    return 1e-3 if dtype == "float32" else 1e-7


def arguments(
    case: Case, dtype: str, *, full: bool
) -> Iterator[tuple[str, tuple[np.ndarray, ...]]]:
    """The arguments of the calls of a case: one matrix of the table, and regular ones."""
    for label, matrix in matrices(dtype):
        if any(endless(matrix).any() for endless in ENDLESS.get(case.op, ())):
            continue
        if case.regular and label not in ("symmetric", "skew", "negative"):
            continue
        if dtype != "float64" and label not in FEW:
            continue
        if not full and label in ("of shape (0, 3)", "of shape (3, 0)", "of shape (3, 2)"):
            continue  # each shape is compiled
        rows = matrix.shape[0]
        regular = OTHER[:rows, :rows].astype(dtype)
        vector = OTHER[:rows, 0].astype(dtype)
        others = [vector if k in case.vectors else regular for k in range(case.count)]
        for place in range(min(case.count, 2)):
            if place not in case.vectors:
                given = (*others[:place], matrix, *others[place + 1 :])
                yield f"{label} {dtype} at {place}", given


def _compared(case: Case, function: Any, given: Arrays) -> list[Any]:
    """The error of a call, or its outputs made comparable, after their dtypes and shapes."""

    def call() -> Any:
        nonlocal found
        outputs = function(*given)
        outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
        found = [np.asarray(output) for output in outputs]
        return 0

    found: list[np.ndarray] = []
    error = outcome(call)
    if isinstance(error, type):
        return [error]
    with np.errstate(all="ignore"):
        compared = case.compared(given, found)
    types = [np.array([str(output.dtype), *map(str, output.shape)]) for output in found]
    return [*types, *[_without_noise(np.asarray(each)) for each in compared]]


def _without_noise(array: np.ndarray) -> np.ndarray:
    """The array with zero for what rounding leaves, and no signs of zero."""
    if array.dtype.kind not in "fc":
        return array
    finite = np.abs(array[np.isfinite(array)])
    level = np.finfo(array.dtype).eps * 1e3 * max(finite.max(initial=0.0), 1.0)
    return np.where(np.abs(array) <= level, array.dtype.type(0), array)
