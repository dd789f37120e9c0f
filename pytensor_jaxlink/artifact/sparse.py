"""Sparse matrices in files.  Apart from other values, because loading need not import SciPy."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.artifact.values import DataReader, DataWriter, describe_value
from pytensor_jaxlink.errors import ArtifactError

_KINDS = {
    ("csr", True): sparse.csr_array,
    ("csc", True): sparse.csc_array,
    ("csr", False): sparse.csr_matrix,
    ("csc", False): sparse.csc_matrix,
}

Matrix = sparse.csr_matrix | sparse.csc_matrix | sparse.csr_array | sparse.csc_array


@describe_value.register(sparse.spmatrix)
@describe_value.register(sparse.sparray)
def _sparse(value: Matrix, writer: DataWriter) -> Json:
    return writer.data(value, lambda: _describe(value, writer))


def _describe(matrix: Any, writer: DataWriter) -> Json:
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


def read_sparse(reader: DataReader, described: Parsed) -> Matrix:
    """The matrix in an entry of the data."""
    kind = _KINDS[described["format"], described["array"]]
    parts = tuple(map(reader.value, described["parts"]))
    matrix = kind(parts, shape=tuple(described["shape"]))
    matrix.check_format(full_check=True)  # SciPy's code does not look at indices again
    return matrix
