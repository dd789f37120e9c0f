"""Products of matrices of which some are transposed."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.ops.array_op import ArrayOp


class Contraction(ArrayOp):
    """The product of two matrices over one dimension of each.

    It stands for a product with transposed matrices: XLA copies a transposed matrix that it
    multiplies with a vector.

    Parameters
    ----------
    left, right
        The dimension of each matrix over which to sum.
    """

    __props__ = ("left", "right")

    def __init__(self, left: int, right: int) -> None:
        self.left, self.right = left, right

    def make_node(self, *inputs: Variable) -> Apply:
        """A matrix of the dimensions that are left."""
        x, y = (variable.type for variable in inputs)
        kind: Any = np.result_type(x.dtype, y.dtype).name
        shape = (x.shape[1 - self.left], y.shape[1 - self.right])
        return Apply(self, list(inputs), [TensorType(kind, shape=shape)()])

    def compute(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """NumPy's product."""
        return np.dot(x.T if self.left == 0 else x, y.T if self.right == 1 else y)
