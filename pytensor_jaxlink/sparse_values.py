"""Sparse matrices as values of JAX code.

Between regions a sparse matrix is SciPy's; inside one it is a `SparseValue`, whose arrays JAX
traces.  A region is compiled anew for another number of stored entries, as for another shape.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class SparseValue:
    """A matrix in compressed form, by rows or by columns.

    Attributes
    ----------
    data, indices, indptr
        The stored entries, their columns (or rows), and where each row (or column) starts.
    shape
        The two lengths.
    format
        ``"csr"`` (by rows) or ``"csc"`` (by columns).
    """

    data: Any
    indices: Any
    indptr: Any
    shape: tuple[int, int]
    format: str

    ndim = 2

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self.data.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of all three arrays."""
        return sum(int(part.nbytes) for part in (self.data, self.indices, self.indptr))

    def with_data(self, data: object) -> SparseValue:
        """The same pattern with other entries."""
        return SparseValue(data, self.indices, self.indptr, self.shape, self.format)

    @property
    def coordinates(self) -> tuple[jax.Array, jax.Array]:
        """The row and the column of each stored entry."""
        counts = jnp.diff(self.indptr)
        count = self.data.shape[0]
        outer = jnp.repeat(jnp.arange(counts.shape[0]), counts, total_repeat_length=count)
        return (outer, self.indices) if self.format == "csr" else (self.indices, outer)

    @property
    def transposed(self) -> SparseValue:
        """The transpose, which shares the arrays."""
        other = "csc" if self.format == "csr" else "csr"
        return SparseValue(
            self.data, self.indices, self.indptr, (self.shape[1], self.shape[0]), other
        )


jax.tree_util.register_dataclass(SparseValue, ["data", "indices", "indptr"], ["shape", "format"])


def scipy_class(kind: str | None) -> Any:
    """The class of SciPy's matrices in a format."""
    from scipy import sparse  # see `from_scipy`

    return getattr(sparse, f"{kind}_matrix")


def from_scipy(matrix: Any) -> object:
    """A matrix of SciPy as a `SparseValue`; all else is returned as it is."""
    # Who has a sparse matrix has imported SciPy's package for them; it costs a tenth of JAX.
    sparse = sys.modules.get("scipy.sparse")
    if sparse is None or not sparse.issparse(matrix) or matrix.format not in ("csr", "csc"):
        return matrix
    shape = int(matrix.shape[0]), int(matrix.shape[1])
    return SparseValue(matrix.data, matrix.indices, matrix.indptr, shape, matrix.format)


def to_scipy(value: object) -> Any:
    """A `SparseValue` as a matrix of SciPy; all else is returned as it is."""
    if not isinstance(value, SparseValue):
        return value
    arrays = (np.array(part) for part in (value.data, value.indices, value.indptr))
    return scipy_class(value.format)(tuple(arrays), shape=value.shape)
