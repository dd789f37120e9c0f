"""Sparse matrices as JSON and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.errors import ArtifactError

if TYPE_CHECKING:
    from pytensor_jaxlink.artifact.values import DataReader, DataWriter


def write_sparse(matrix: Any, writer: DataWriter) -> Json:
    """A matrix as the entry of a table.  SciPy is imported here: it costs a tenth of JAX."""
    from scipy import sparse

    if matrix.format not in ("csr", "csc"):
        raise ArtifactError(f"a sparse matrix in the format {matrix.format!r} cannot be saved")
    return {
        "sparse": {
            "format": matrix.format,
            "array": isinstance(matrix, sparse.sparray),
            "shape": [int(length) for length in matrix.shape],
            "parts": [writer.value(part) for part in (matrix.data, matrix.indices, matrix.indptr)],
        }
    }


def read_sparse(reader: DataReader, described: Parsed) -> object:
    """The matrix of an entry."""
    from scipy import sparse

    kinds = {
        ("csr", True): sparse.csr_array,
        ("csc", True): sparse.csc_array,
        ("csr", False): sparse.csr_matrix,
        ("csc", False): sparse.csc_matrix,
    }
    parts = tuple(map(reader.value, described["parts"]))
    kind = kinds[described["format"], described["array"]]
    matrix = kind(parts, shape=tuple(described["shape"]))
    matrix.check_format(full_check=True)  # SciPy's code does not look at indices again
    return matrix
