"""Expressions of arrays of each type, in each form of `tests.edges.forms`.

`python -m tests.edges expressions` compares all of them with the Python linker, or a part that
``--start`` and ``--step`` name; the tests a small part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytensor.tensor.linalg as ptl
import pytensor.xtensor as px
from pytensor import sparse, typed_list
from pytensor.tensor import fft
from pytensor.tensor.signal import convolve1d, convolve2d

from tests.edges.forms import FORMS, Case, Expression, case
from tests.edges.known import OLD

TYPES = (
    "bool", "int8", "uint8", "int64", "uint64", "float32", "float64", "complex128",
    "int32", "uint16", "complex64", "float16",
)  # fmt: skip


def _regular(m: Any) -> Any:
    """A matrix that is regular whatever is given."""
    return pt.tril(m, -1) * 0.1 + pt.eye(m.shape[0]) * 3.0


def _larger(m: Any) -> Any:
    """A matrix that is never empty: PyTensor's TRSYL leaves no value for an empty one."""
    identity = pt.eye(m.shape[0] + 1)
    return pt.set_subtensor(identity[1:, 1:], m)


def _definite(m: Any) -> Any:
    return m @ m.T + pt.eye(m.shape[0]) * 9.0


def _labelled(v: Any, w: Any) -> tuple[Any, Any]:
    return px.as_xtensor(v, dims=("a",)), px.as_xtensor(w, dims=("a",))


def _labelled_matrix(m: Any) -> Any:
    return px.as_xtensor(m, dims=("a", "b"))


def _stored(m: Any) -> Any:
    return sparse.csr_from_dense(m)


def _by_column(m: Any) -> Any:
    return sparse.csc_from_dense(m)


# Of a matrix and two vectors.
EXPRESSIONS: dict[str, Expression] = {
    **{
        f"{name} {axis}": lambda m, v, w, name=name, axis=axis: getattr(pt, name)(m, axis=axis)
        for name, axis in product(
            ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"), (None, 0)
        )
    },
    "sum as int8": lambda m, v, w: pt.sum(m, dtype="int8"),
    "mean": lambda m, v, w: pt.mean(m, axis=1),
    "sorted": lambda m, v, w: pt.sort(v),
    "sorted columns": lambda m, v, w: pt.sort(m, axis=0),
    "differences": lambda m, v, w: pt.diff(v),
    "product": lambda m, v, w: pt.dot(v, w),
    "outer product": lambda m, v, w: pt.outer(v, w),
    "joined": lambda m, v, w: pt.concatenate([v, w[:1], v]),
    "joined to reals": lambda m, v, w: pt.concatenate([v, np.array([1.5])]),
    "joined to integers": lambda m, v, w: pt.concatenate([np.array([7], "int16"), v]),
    "stacked": lambda m, v, w: pt.stack([v, w]),
    "chosen by": lambda m, v, w: pt.switch(v, w, 3),
    "where": lambda m, v, w: pt.where(pt.neq(v, 1), v, w),
    "clipped": lambda m, v, w: pt.clip(v, 1, 3),
    "clipped to reals": lambda m, v, w: pt.clip(v, 0.5, 2.5),
    "distinct": lambda m, v, w: pt.unique(v),
    "searched": lambda m, v, w: pt.searchsorted(pt.sort(v), w),
    "counted": lambda m, v, w: pt.bincount(v),
    "repeated": lambda m, v, w: pt.repeat(v, 2),
    "tiled": lambda m, v, w: pt.tile(v, (2, 2)),
    "rolled": lambda m, v, w: pt.roll(v, 2),
    "reversed": lambda m, v, w: pt.flip(m),
    "diagonal": lambda m, v, w: pt.diag(v),
    "lower triangle": lambda m, v, w: pt.tril(m),
    "upper triangle": lambda m, v, w: pt.triu(m, 1),
    "taken": lambda m, v, w: pt.take(v, [0, -1]),
    "filled": lambda m, v, w: pt.full_like(v, 2.75),
    "softmax": lambda m, v, w: pt.special.softmax(v),
    "softmax of columns": lambda m, v, w: pt.special.softmax(m, axis=0),
    "log softmax": lambda m, v, w: pt.special.log_softmax(m, axis=1),
    "quotient": lambda m, v, w: v // w,
    "remainder": lambda m, v, w: v % w,
    "ratio": lambda m, v, w: v / w,
    "power": lambda m, v, w: v**2,
    "inverted": lambda m, v, w: ~v,
    "larger": lambda m, v, w: pt.maximum(v, w),
    "as int8": lambda m, v, w: pt.cast(v, "int8"),
    "as bool": lambda m, v, w: pt.cast(v, "bool"),
    "set": lambda m, v, w: pt.set_subtensor(v[1:2], 2.75),
    "incremented": lambda m, v, w: pt.inc_subtensor(v[[0, 0]], w[0]),
    "incremented by reals": lambda m, v, w: pt.inc_subtensor(v[[0, 0]], 0.75),
    "slice incremented by reals": lambda m, v, w: pt.inc_subtensor(v[:1], 0.75),
    "padded": lambda m, v, w: pt.pad(v, (1, 2), constant_values=3),
    "padded by means": lambda m, v, w: pt.pad(v, 2, mode="mean"),
    "padded by a ramp": lambda m, v, w: pt.pad(v, 2, mode="linear_ramp", end_values=1),
    "Kronecker product": lambda m, v, w: pt.linalg.kron(m, m),
    "covariance": lambda m, v, w: m.T @ m,
    # -- reductions
    "product of all": lambda m, v, w: pt.prod(v, dtype="int64"),
    "sum of the last axis": lambda m, v, w: pt.sum(m, axis=-1, keepdims=True),
    "mean of all": lambda m, v, w: pt.mean(v),
    "mean as float32": lambda m, v, w: pt.mean(v, dtype="float32"),
    "variance": lambda m, v, w: pt.var(m, axis=0),
    "variance, corrected": lambda m, v, w: pt.var(v, ddof=1),
    "deviation": lambda m, v, w: pt.std(m, axis=1),
    "median": lambda m, v, w: pt.median(v),
    "median of rows": lambda m, v, w: pt.median(m, axis=1),
    "peak to peak": lambda m, v, w: pt.ptp(m, axis=1),
    "largest and its place": lambda m, v, w: list(pt.max_and_argmax(m, axis=1)),
    "logsumexp": lambda m, v, w: pt.logsumexp(m, axis=0),
    "logsumexp of all": lambda m, v, w: pt.logsumexp(v, keepdims=True),
    "norm": lambda m, v, w: ptl.norm(v),
    "norm, largest": lambda m, v, w: ptl.norm(m, ord=np.inf),
    "norm, nuclear": lambda m, v, w: ptl.norm(m, ord="fro"),
    "norm of rows": lambda m, v, w: ptl.norm(m, axis=1, ord=3),
    "norm, count": lambda m, v, w: ptl.norm(v, ord=0),
    "covariance of variables": lambda m, v, w: pt.cov(m),
    "covariance of columns": lambda m, v, w: pt.cov(m, rowvar=False, ddof=0),
    "cumulative product": lambda m, v, w: pt.cumprod(pt.cast(v, "float64")),
    "cumulative sum": lambda m, v, w: pt.cumsum(pt.cast(m, "float64"), axis=1),
    "allclose": lambda m, v, w: pt.allclose(v, w),
    # -- order
    "argsort": lambda m, v, w: pt.argsort(v, stable=True),
    "argsort of rows": lambda m, v, w: pt.argsort(m, axis=1, stable=True),
    "sorted flat": lambda m, v, w: pt.sort(m, axis=None),
    "distinct, all": lambda m, v, w: list(
        pt.unique(v, return_index=True, return_inverse=True, return_counts=True)
    ),
    "distinct rows": lambda m, v, w: pt.unique(m, axis=0),
    "searched, right": lambda m, v, w: pt.searchsorted(pt.sort(v), m, side="right"),
    "searched with an order": lambda m, v, w: pt.searchsorted(
        v, w, sorter=pt.argsort(v, stable=True)
    ),
    "counted with weights": lambda m, v, w: pt.bincount(v, weights=w, minlength=3),
    "interpolated": lambda m, v, w: pt.interp(v, pt.arange(w.shape[0]), w),
    "inverse permutation": lambda m, v, w: pt.inverse_permutation(pt.argsort(v, stable=True)),
    "permuted rows": lambda m, v, w: pt.permute_row_elements(
        m, pt.argsort(m[0], stable=True) if m.ndim == 2 else m
    ),
    # -- elementwise
    "absolute": lambda m, v, w: abs(v) + 1,
    "negative": lambda m, v, w: -v,
    "sign": lambda m, v, w: pt.sign(v) * w,
    "square root": lambda m, v, w: pt.sqrt(abs(v)),
    "logarithm": lambda m, v, w: pt.log(abs(v) + 1),
    "exponential": lambda m, v, w: pt.exp(v),
    "sigmoid": lambda m, v, w: pt.sigmoid(v - w),
    "softplus": lambda m, v, w: pt.softplus(m),
    "sine and cosine": lambda m, v, w: pt.sin(v) * pt.cos(w),
    "log1p of an exponential": lambda m, v, w: pt.log1p(pt.exp(v)),
    "log of a sum": lambda m, v, w: pt.log(pt.exp(v).sum()),
    "logaddexp": lambda m, v, w: pt.logaddexp(v, w),
    "power of both": lambda m, v, w: v ** abs(w),
    "power, negative": lambda m, v, w: pt.cast(v + 7, "float64") ** -w,
    "power, half": lambda m, v, w: abs(v) ** 0.5,
    "power of two": lambda m, v, w: 2**v,
    "power with zero": lambda m, v, w: v**0,
    "divmod": lambda m, v, w: list(pt.divmod(v, w + 1)),
    "ceiling of a quotient": lambda m, v, w: pt.ceil_intdiv(v, 2),
    "reciprocal": lambda m, v, w: pt.reciprocal(v + 0.5),
    "square": lambda m, v, w: pt.sqr(v) - pt.sqr(w),
    "round": lambda m, v, w: [pt.round(v), pt.floor(v), pt.ceil(v), pt.trunc(v)],
    "round away": lambda m, v, w: pt.round(v, mode="half_away_from_zero"),
    "nearest integer": lambda m, v, w: pt.iround(v),
    "logical": lambda m, v, w: [pt.and_(v, w), pt.or_(v, w), pt.xor(v, w)],
    "compared": lambda m, v, w: [v < w, v <= w, pt.eq(v, w), v >= 2, pt.neq(v, w)],
    "close": lambda m, v, w: pt.isclose(v, w),
    "finite": lambda m, v, w: [pt.isnan(v / w), pt.isinf(v / w), pt.isfinite(v)],
    "isposinf": lambda m, v, w: [pt.isposinf(v), pt.isneginf(v)],
    "without NaN": lambda m, v, w: pt.nan_to_num(v / w),
    "real and imaginary": lambda m, v, w: [pt.real(v), pt.imag(v), pt.conj(v)],
    "complex": lambda m, v, w: pt.complex(v, w),
    "angle": lambda m, v, w: pt.angle(v),
    "arctan2": lambda m, v, w: pt.arctan2(v, w + 0.5),
    "degrees": lambda m, v, w: pt.deg2rad(pt.rad2deg(v)),
    "gamma": lambda m, v, w: pt.gammaln(abs(v) + 1.5),
    "digamma": lambda m, v, w: pt.psi(abs(v) + 1.5),
    "error function": lambda m, v, w: pt.erf(v) + pt.erfc(w),
    "Bessel": lambda m, v, w: pt.i0(v) + pt.j0(v),
    "factorial": lambda m, v, w: pt.special.factorial(abs(v)),
    "logit": lambda m, v, w: pt.special.logit(pt.sigmoid(v)),
    "xlogy": lambda m, v, w: pt.special.xlogy(v, abs(w)) + pt.special.xlog1py(v, abs(w)),
    "beta": lambda m, v, w: pt.special.betaln(abs(v) + 1.5, abs(w) + 0.5),
    "poch": lambda m, v, w: pt.special.poch(abs(v) + 1.5, abs(w)),
    "chosen among": lambda m, v, w: pt.choose(pt.cast(v, "int64"), [w, v], mode="wrap"),
    "ranged": lambda m, v, w: pt.switch(v > 2, pt.switch(w > 1, v, 0), w),
    "filled like": lambda m, v, w: [pt.ones_like(m), pt.zeros_like(v, dtype="int8")],
    "second": lambda m, v, w: pt.second(v, w[0]),
    "identity like": lambda m, v, w: pt.identity_like(m),
    "bits": lambda m, v, w: [v & w, v | w, v ^ w],
    **{
        f"as {dtype}": lambda m, v, w, dtype=dtype: pt.cast(v, dtype)
        for dtype in ("uint8", "int16", "uint32", "int64", "float16", "float32", "complex64")
    },
    **{
        f"{name} with {dtype}": lambda m, v, w, name=name, dtype=dtype: getattr(pt, name)(
            v, pt.cast(abs(w), dtype)
        )
        for name, dtype in product(
            ("add", "mul", "sub", "floor_div", "mod", "true_div", "pow", "minimum"),
            ("int8", "uint64", "float32", "bool"),
        )
    },
    # -- shapes
    "reshaped": lambda m, v, w: m.reshape((-1, 2)),
    "flat": lambda m, v, w: m.flatten() * 2,
    "columns": lambda m, v, w: m.T + v[:1],
    "swapped": lambda m, v, w: pt.swapaxes(pt.stack([m, m]), 0, 2),
    "moved": lambda m, v, w: pt.moveaxis(pt.stack([m, m]), 0, -1),
    "axes": lambda m, v, w: v[None, :] * w[:, None],
    "squeezed": lambda m, v, w: pt.squeeze(m[:1], axis=0),
    "at least": lambda m, v, w: [pt.atleast_2d(v), pt.atleast_3d(m)],
    "broadcast": lambda m, v, w: pt.broadcast_to(v, (3, v.shape[0])),
    "broadcast arrays": lambda m, v, w: list(pt.broadcast_arrays(v, w[:, None])),
    "stacked vertically": lambda m, v, w: pt.vertical_stack(m, m),
    "stacked horizontally": lambda m, v, w: pt.horizontal_stack(m, m[:, :1]),
    "joined matrices": lambda m, v, w: pt.join(1, m, m * 2),
    "split": lambda m, v, w: pt.split(v, splits_size=[2, v.shape[0] - 2]),
    "packed": lambda m, v, w: pt.pack(m, v)[0],
    "joined axes": lambda m, v, w: pt.join_dims(pt.stack([m, m]), 0, 2),
    "rolled rows": lambda m, v, w: pt.roll(m, -1, axis=0),
    "rolled flat": lambda m, v, w: pt.roll(m, 3),
    "rolled by data": lambda m, v, w: pt.roll(v, (w > 1).sum()),
    "repeated each": lambda m, v, w: pt.repeat(v, pt.cast(w, "int64") % 3),
    "repeated rows": lambda m, v, w: pt.repeat(m, 2, axis=1),
    "repeated by data": lambda m, v, w: pt.repeat(v, (w > 1).sum()),
    "tiled by data": lambda m, v, w: pt.tile(v, (w > 1).sum()),
    "differences of rows": lambda m, v, w: pt.diff(m, n=2, axis=0),
    "flipped": lambda m, v, w: pt.flip(m, axis=1),
    "matrix of a diagonal": lambda m, v, w: pt.diagonal(m, offset=1),
    "filled diagonal": lambda m, v, w: pt.fill_diagonal(m, 7),
    "filled diagonal, offset": lambda m, v, w: pt.fill_diagonal_offset(m, 7, 1),
    "trace": lambda m, v, w: pt.trace(m),
    "one hot": lambda m, v, w: pt.extra_ops.to_one_hot(pt.cast(abs(v), "int64") % 4, 4),
    "compressed": lambda m, v, w: pt.compress(w > 1, v),
    "padded shape": lambda m, v, w: [pt.shape_padleft(v, 2), pt.shape_padright(v)],
    "shape": lambda m, v, w: [m.shape, v.size, v.shape[0] * w],
    "range": lambda m, v, w: pt.arange(v.shape[0]) * v,
    "range of data": lambda m, v, w: pt.arange((v > 1).sum()),
    "linspace": lambda m, v, w: pt.linspace(v, w, 4),
    "geomspace": lambda m, v, w: pt.geomspace(abs(v) + 1, 9, 3),
    "logspace": lambda m, v, w: pt.logspace(0, abs(v), 3),
    "triangle's places": lambda m, v, w: pt.stack(pt.tril_indices(m.shape[0])),
    "triangle's entries": lambda m, v, w: m[pt.triu_indices_from(m)],
    "unravelled": lambda m, v, w: pt.stack(pt.unravel_index(pt.arange(4), (2, 2))) * v[0],
    "ravelled": lambda m, v, w: pt.ravel_multi_index(
        [pt.cast(abs(v), "int64"), pt.cast(abs(w), "int64")], (9, 9)
    ),
    "window": lambda m, v, w: pt.bartlett(v.shape[0]) * v,
    "identity": lambda m, v, w: pt.eye(m.shape[0], dtype=m.dtype) + m,
    "padded, reflected": lambda m, v, w: pt.pad(v, (2, 1), mode="reflect"),
    "padded, wrapped": lambda m, v, w: pt.pad(v, (2, 3), mode="wrap"),
    "padded, symmetric": lambda m, v, w: pt.pad(v, (1, 2), mode="symmetric"),
    "padded with edges": lambda m, v, w: pt.pad(m, 1, mode="edge"),
    "padded with maxima": lambda m, v, w: pt.pad(v, (1, 2), mode="maximum"),
    # -- indexing
    "taken rows": lambda m, v, w: pt.take(m, [1, 0, -1], axis=0),
    "taken, clipped": lambda m, v, w: pt.take(v, [9, -9, 1], mode="clip"),
    "taken, wrapped": lambda m, v, w: pt.take(v, [9, -9, 1], mode="wrap"),
    "taken along": lambda m, v, w: pt.take_along_axis(m, pt.argsort(m, axis=1, stable=True), 1),
    "indexed by data": lambda m, v, w: w[pt.cast(v, "int64")],
    "indexed by itself": lambda m, v, w: w[v],
    "rows by data": lambda m, v, w: m[pt.cast(v, "int64") % 3],
    "an entry by data": lambda m, v, w: v[pt.argmax(w)],
    "entries of rows": lambda m, v, w: m[pt.arange(m.shape[0]), pt.argmin(m, axis=1)],
    "slice by data": lambda m, v, w: v[(w > 2).sum() :],
    "selected": lambda m, v, w: v[w > 1],
    "selected twice": lambda m, v, w: v[w > 1] * w[w > 1],
    "selected sum": lambda m, v, w: pt.exp(-v[w > 1]).sum(),
    "selected entries": lambda m, v, w: m[m > 1],
    "selected rows": lambda m, v, w: m[m[:, 0] > 0].sum(axis=0),
    "nonzero": lambda m, v, w: v[pt.nonzero(w)],
    "nonzero values": lambda m, v, w: pt.nonzero_values(m),
    "flat nonzero": lambda m, v, w: pt.flatnonzero(m),
    "places": lambda m, v, w: pt.stack(pt.nonzero(m)),
    "set by a mask": lambda m, v, w: pt.set_subtensor(v[w > 1], w[w > 1]),
    "incremented by a mask": lambda m, v, w: pt.inc_subtensor(v[w > 1], 2),
    "set rows": lambda m, v, w: pt.set_subtensor(m[[0, -1]], m[:1]),
    "set by data": lambda m, v, w: pt.set_subtensor(v[pt.cast(w, "int64") % 3], w),
    "incremented by data": lambda m, v, w: pt.inc_subtensor(v[pt.cast(w, "int64") % 3], w),
    "set an entry": lambda m, v, w: pt.set_subtensor(m[0, -1], w[0]),
    "incremented column": lambda m, v, w: pt.inc_subtensor(m[:, 0], v[: m.shape[0]]),
    "set a prefix": lambda m, v, w: pt.set_subtensor(v[: (w > 1).sum()], 1),
    "incremented a prefix": lambda m, v, w: pt.inc_subtensor(
        v[: (w > 1).sum()], w[: (w > 1).sum()]
    ),
    "set to a wider type": lambda m, v, w: pt.set_subtensor(v[:2], pt.cast(w[:2], "int64")),
    # -- products
    "matrix and vector": lambda m, v, w: m @ v[: m.shape[1]],
    "vector and matrix": lambda m, v, w: v[: m.shape[0]] @ m,
    "matvec": lambda m, v, w: pt.matvec(m, v[: m.shape[1]]),
    "vecmat": lambda m, v, w: pt.vecmat(v[: m.shape[0]], m),
    "vecdot": lambda m, v, w: pt.vecdot(v, w),
    "tensordot": lambda m, v, w: pt.tensordot(m, m, axes=2),
    "tensordot over none": lambda m, v, w: pt.tensordot(v, w, axes=0),
    "einsum": lambda m, v, w: pt.einsum("ij,jk->ki", m, m),
    "einsum of a trace": lambda m, v, w: pt.einsum("i,j->", v, w),
    "product of three": lambda m, v, w: m @ m @ m,
    "product with integers": lambda m, v, w: m @ pt.cast(m, "int8"),
    "quadratic form": lambda m, v, w: v[: m.shape[0]] @ m @ w[: m.shape[0]],
    "scaled product": lambda m, v, w: 2 * (m @ m) + 0.5 * m,
    "stack of products": lambda m, v, w: pt.stack([m, m]) @ m,
    # -- linear algebra
    "Cholesky": lambda m, v, w: ptl.cholesky(_definite(m)),
    "Cholesky, upper": lambda m, v, w: ptl.cholesky(_definite(m), lower=False),
    "inverse": lambda m, v, w: ptl.inv(_definite(m)),
    "pseudo-inverse": lambda m, v, w: ptl.pinv(_definite(m)),
    "determinant": lambda m, v, w: ptl.det(_regular(m)),
    "signed log determinant": lambda m, v, w: list(ptl.slogdet(_regular(m))),
    "log determinant": lambda m, v, w: pt.log(ptl.det(_definite(m))),
    "solved": lambda m, v, w: ptl.solve(_regular(m), m),
    "solved, vector": lambda m, v, w: ptl.solve(_regular(m), m[0], b_ndim=1),
    "solved, positive": lambda m, v, w: ptl.solve(_definite(m), m, assume_a="pos"),
    "solved, symmetric": lambda m, v, w: ptl.solve(_definite(m), m, assume_a="sym"),
    "solved, triangular": lambda m, v, w: ptl.solve_triangular(_regular(m), m, lower=True),
    "solved, transposed": lambda m, v, w: ptl.solve_triangular(
        _regular(m), m, lower=True, trans="T"
    ),
    "solved by a factor": lambda m, v, w: ptl.cho_solve((ptl.cholesky(_definite(m)), True), m),
    "solved by LU": lambda m, v, w: ptl.lu_solve(ptl.lu_factor(_regular(m)), m),
    "exponential of a matrix": lambda m, v, w: ptl.expm(_regular(m)),
    "eigenvalues": lambda m, v, w: ptl.eigvalsh(_definite(m)),
    "smallest eigenvalue": lambda m, v, w: ptl.eigh(_definite(m))[0],
    "singular values": lambda m, v, w: ptl.svd(m, compute_uv=False),
    "matrix power": lambda m, v, w: ptl.matrix_power(m, 3),
    "triangular factor": lambda m, v, w: abs(ptl.qr(_definite(m), mode="r")),
    "block diagonal": lambda m, v, w: ptl.block_diag(m, m[:1]),
    "Lyapunov": lambda m, v, w: ptl.solve_discrete_lyapunov(_regular(_larger(m)) / 9, _larger(m)),
    "Lyapunov, continuous": lambda m, v, w: ptl.solve_continuous_lyapunov(
        _regular(_larger(m)), _larger(m)
    ),
    "Sylvester": lambda m, v, w: ptl.solve_sylvester(*[_regular(_larger(m))] * 2, _larger(m)),
    "LU": lambda m, v, w: list(ptl.lu(_regular(m))),
    "tensorinv": lambda m, v, w: ptl.tensorinv(_regular(m), ind=1),
    "tensorsolve": lambda m, v, w: ptl.tensorsolve(_regular(m), m[0]),
    # -- signals
    "convolved": lambda m, v, w: convolve1d(v, w, mode="full"),
    "convolved, valid": lambda m, v, w: convolve1d(v, w[:2], mode="valid"),
    "convolved, same": lambda m, v, w: convolve1d(v, w[:3], mode="same"),
    "convolved matrices": lambda m, v, w: convolve2d(m, m[:2, :2], mode="full"),
    "convolved matrices, valid": lambda m, v, w: convolve2d(m, m[:2, :2], mode="valid"),
    "Fourier": lambda m, v, w: fft.rfft(m),
    "Fourier and back": lambda m, v, w: fft.irfft(fft.rfft(m)),
    "Fourier, scaled": lambda m, v, w: fft.rfft(m, norm="ortho"),
    # -- sparse matrices
    "sparse and dense": lambda m, v, w: sparse.dense_from_sparse(_stored(m)),
    "sparse, transposed": lambda m, v, w: sparse.dense_from_sparse(_by_column(m).T),
    "sparse, sum": lambda m, v, w: sparse.sp_sum(_stored(m), axis=1),
    "sparse, total": lambda m, v, w: sparse.sp_sum(_by_column(m)),
    "sparse product": lambda m, v, w: sparse.dot(_stored(m), m),
    "sparse, structured product": lambda m, v, w: sparse.structured_dot(_by_column(m), m),
    "sparse, true product": lambda m, v, w: sparse.dense_from_sparse(
        sparse.true_dot(_stored(m), _stored(m))
    ),
    "sparse plus sparse": lambda m, v, w: sparse.dense_from_sparse(_stored(m) + _stored(m.T)),
    "sparse plus dense": lambda m, v, w: sparse.add(_stored(m), m),
    "sparse minus sparse": lambda m, v, w: sparse.dense_from_sparse(_stored(m) - _stored(m.T)),
    "sparse times sparse": lambda m, v, w: sparse.dense_from_sparse(_stored(m) * _stored(m.T)),
    "sparse times dense": lambda m, v, w: sparse.dense_from_sparse(_by_column(m) * m),
    "sparse times vector": lambda m, v, w: sparse.dense_from_sparse(
        _by_column(m) * v[: m.shape[1]]
    ),
    "sparse times number": lambda m, v, w: sparse.dense_from_sparse(_stored(m) * v[0]),
    "sparse, scaled columns": lambda m, v, w: sparse.dense_from_sparse(
        sparse.col_scale(_by_column(m), v[: m.shape[1]])
    ),
    "sparse, scaled rows": lambda m, v, w: sparse.dense_from_sparse(
        sparse.row_scale(_stored(m), v[: m.shape[0]])
    ),
    "sparse entry": lambda m, v, w: _stored(m)[0, -1],
    "sparse rows": lambda m, v, w: sparse.dense_from_sparse(_stored(m)[1:, :2]),
    "sparse, list of rows": lambda m, v, w: sparse.dense_from_sparse(_stored(m)[[1, 0]]),
    "sparse, lists": lambda m, v, w: _by_column(m)[[1, 0], [0, 1]],
    "sparse diagonal": lambda m, v, w: sparse.diag(_by_column(m)),
    "sparse of a diagonal": lambda m, v, w: sparse.dense_from_sparse(sparse.square_diagonal(v)),
    "sparse, cast": lambda m, v, w: sparse.dense_from_sparse(sparse.cast(_stored(m), "int8")),
    "sparse, stacked": lambda m, v, w: sparse.dense_from_sparse(
        sparse.hstack([_stored(m), _stored(m)])
    ),
    "sparse, stacked rows": lambda m, v, w: sparse.dense_from_sparse(
        sparse.vstack([_stored(m), _by_column(m)])
    ),
    "sparse, compared": lambda m, v, w: sparse.dense_from_sparse(
        sparse.gt(_stored(m), _stored(m.T))
    ),
    "sparse, compared with dense": lambda m, v, w: sparse.lt(_stored(m), m * 2),
    "sparse, sampled product": lambda m, v, w: sparse.dense_from_sparse(
        sparse.sampling_dot(m, m, _stored(m))
    ),
    "sparse, elementwise": lambda m, v, w: sparse.dense_from_sparse(sparse.sqr(_stored(m))),
    "sparse, sine": lambda m, v, w: sparse.dense_from_sparse(sparse.sin(_stored(m))),
    "sparse, structured exponential": lambda m, v, w: sparse.dense_from_sparse(
        sparse.structured_exp(_stored(m))
    ),
    "sparse, without zeros": lambda m, v, w: sparse.csm_data(sparse.remove0(_stored(m))),
    "sparse, parts": lambda m, v, w: list(sparse.csm_properties(_stored(m))),
    "sparse, again": lambda m, v, w: sparse.dense_from_sparse(
        sparse.CSC(*sparse.csm_properties(_stored(m)))
    ),
    "sparse, from rows": lambda m, v, w: sparse.dense_from_sparse(
        sparse.construct_sparse_from_list(m, m, pt.arange(m.shape[0]))
    ),
    "sparse, negative": lambda m, v, w: sparse.dense_from_sparse(-_stored(m)),
    "sparse, usmm": lambda m, v, w: sparse.usmm(pt.as_tensor(np.float64(2)), _stored(m), m, m),
    # -- lists
    "a list's entry": lambda m, v, w: typed_list.make_list([v, w])[1],
    "a list's length": lambda m, v, w: typed_list.length(typed_list.make_list([v, w])),
    "a list appended to": lambda m, v, w: typed_list.append(typed_list.make_list([v]), w)[-1],
    "a list reversed": lambda m, v, w: typed_list.reverse(typed_list.make_list([v, w, v * 2]))[0],
    "a list searched": lambda m, v, w: typed_list.index_(typed_list.make_list([v, w]), w),
    "a list counted": lambda m, v, w: typed_list.count(typed_list.make_list([v, w, v]), v),
    "a list inserted to": lambda m, v, w: typed_list.insert(
        typed_list.make_list([v]), pt.as_tensor(np.int64(0)), w
    )[0],
    # -- labelled dimensions
    "labelled sum": lambda m, v, w: _labelled_matrix(m).sum("a").values,
    "labelled outer product": lambda m, v, w: (
        (px.as_xtensor(v, dims=("a",)) * px.as_xtensor(w, dims=("b",))).values
    ),
    "labelled dot": lambda m, v, w: px.dot(*_labelled(v, w)).values,
    "labelled where": lambda m, v, w: px.where(_labelled(v, w)[0] > 1, *_labelled(v, w)).values,
    "labelled selection": lambda m, v, w: _labelled_matrix(m).isel(a=slice(1, None), b=0).values,
    "labelled transpose": lambda m, v, w: _labelled_matrix(m).transpose("b", "a").values,
    "labelled stack": lambda m, v, w: _labelled_matrix(m).stack({"c": ["a", "b"]}).values,
    "labelled concatenation": lambda m, v, w: px.concat(_labelled(v, w), dim="a").values,
    "labelled mean": lambda m, v, w: _labelled_matrix(m).mean("b").values,
    "labelled differences": lambda m, v, w: _labelled(v, w)[0].diff("a").values,
    "labelled running sum": lambda m, v, w: (
        _labelled_matrix(m).astype("float64").cumsum("a").values
    ),
}


# PyTensor 3.0 rewrites a softmax of integers, and the logarithm of a sum of exponentials, for ever
# for its Python linker, and has Numba pad complex numbers, which refuses to make reals of them.
def _has_a_reference(name: str, dtype: str) -> bool:
    kind = np.dtype(dtype).kind
    endless = ("softmax", "logsumexp", "log of a sum") if OLD else ("softmax",)
    if kind != "f" and any(part in name for part in endless):
        return False
    return kind != "c" or "padded" not in name


def cases(
    names: Sequence[str] = tuple(EXPRESSIONS),
    types: Sequence[str] = TYPES,
    forms: Sequence[str] = tuple(FORMS),
    **options: Any,
) -> Iterator[Case]:
    """The table, or a part of it."""
    for form, dtype, name in product(forms, types, names):
        if _has_a_reference(name, dtype):
            yield case(name, EXPRESSIONS[name], dtype, form, **options)


def run(start: int = 0, step: int = 1) -> list[str]:
    """The differences of the table, or of each of so many cases, that are not known."""
    return [text for each in islice(cases(), start, None, step) for text in each.differences()]
