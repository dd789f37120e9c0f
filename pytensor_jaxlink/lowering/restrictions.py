"""The types that JAX has no values of, and the Ops to which it gives other values."""

from __future__ import annotations

from functools import singledispatch

import jax
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.scalar.basic import ScalarType
from pytensor.scalar.math import PolyGamma
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.decomposition.eigen import Eig
from pytensor.tensor.linalg.decomposition.qr import QR
from pytensor.tensor.linalg.decomposition.schur import Schur
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from pytensor_jaxlink.graph import ArrayType

_DTYPES_OF_JAX = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)


def has_jax_values(kind: Type) -> bool:
    """Return True if values of a PyTensor type can be arguments and results of JAX code."""
    if isinstance(kind, ArrayType | ScalarType):
        return kind.dtype in _DTYPES_OF_JAX
    if isinstance(kind, SparseTensorType):
        return kind.dtype in _DTYPES_OF_JAX and kind.format in ("csr", "csc")
    return isinstance(kind, RandomType | NoneTypeT)


@singledispatch
def not_right(op: Op, node: Apply) -> str | None:
    """Why PyTensor's JAX rule for a node would give other values than PyTensor, or None.

    Such a node runs on the host.
    """
    return None


@not_right.register(Schur)
def _not_right_schur(op: Schur, node: Apply) -> str | None:
    if jax.default_backend() != "cpu":
        return "JAX has Schur forms on CPUs only"
    return None if op.sort is None else "JAX does not sort the eigenvalues of a Schur form"


@not_right.register(Eig)
def _not_right_eig(op: Eig, node: Apply) -> str | None:
    return "JAX has no such factorisation on TPUs" if jax.default_backend() == "tpu" else None


@not_right.register(QR)
def _not_right_qr(op: QR, node: Apply) -> str | None:
    if op.mode == "raw" and op.pivoting:
        return "JAX gives no reflectors of a factorisation with pivots"
    return None


_OF_REAL_NUMBERS = frozenset([
    "ArcTan2", "Erf", "GammaInc", "GammaIncC", "GammaL", "GammaLn", "GammaU", "Hyp2F1", "I0", "I1",
    "IntDiv", "Mod", "Owens_t", "Psi", "Sigmoid", "Softplus",
])  # fmt: skip


@not_right.register(Elemwise)
def _not_right_elemwise(op: Elemwise, node: Apply) -> str | None:
    of_complex = node.inputs[0].type.dtype.startswith("complex") if node.inputs else False
    if of_complex and type(op.scalar_op).__name__ in _OF_REAL_NUMBERS:
        return "JAX has this function for real numbers only"
    if isinstance(op.scalar_op, PolyGamma):
        return "JAX's polygamma functions take no array of orders, and lose digits from order 10 on"
    return None
