"""Types of PyTensor."""

from __future__ import annotations

from typing import TypeAlias

from pytensor.tensor.type import DenseTensorType
from pytensor.xtensor.type import XTensorType

ArrayType: TypeAlias = DenseTensorType | XTensorType
"""The types of dense arrays: tensors, and those with names of dimensions.

Both have ``dtype``, ``shape`` and ``ndim``, and the values of both are NumPy arrays.
"""
