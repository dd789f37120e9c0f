"""Where NumPy adds to parts of an array otherwise than JAX, because the types differ.

NumPy adds ``x[index] += y`` in the type that holds both.  To a slice it refuses a sum that the type
of `x` may not take (a real number, where `x` has integers).  At places it converts the sum of each
repeated index before it adds the next: two times 0.7 to the integer 1 makes 1.
"""

from __future__ import annotations

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.scalar.basic import Second
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from pytensor.tensor.type import scalar

from pytensor_jaxlink.ops.array_op import ArrayOp
from pytensor_jaxlink.ops.fitting import Fitted, Indexable, Stretched
from pytensor_jaxlink.ops.held_types import held_dtype


class NegativeZero(ArrayOp):
    """The number that changes no other when it is added: 0.0 makes 0.0 of -0.0.

    It is no constant, because PyTensor takes equal ones for one, and -0.0 equals 0.0.

    Parameters
    ----------
    dtype
        The name of a real or complex type.
    """

    __props__ = ("dtype",)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def make_node(self, *inputs: Variable) -> Apply:
        """A scalar; there are no inputs."""
        return Apply(self, [], [scalar(dtype=self.dtype)])

    def do_constant_folding(self, fgraph: FunctionGraph, node: Apply) -> bool:
        """Never."""
        return False

    def infer_shape(self, *arguments: object) -> list[tuple[()]]:
        """No dimensions."""
        return [()]

    def compute(self) -> np.ndarray:
        """Both parts of a complex number."""
        return np.asarray(-np.zeros((), self.dtype))


def types_of_sum(node: Apply) -> tuple[np.dtype, np.dtype]:
    """The type of the array of an increment, and the one in which NumPy adds."""
    kept, added = (np.dtype(held_dtype(v) or v.type.dtype) for v in node.inputs[:2])
    return kept, np.result_type(kept, added)


def other_sum(node: Apply) -> str | None:
    """Why only NumPy can make an update of a part of an array, or None."""
    if node.op.set_instead_of_inc:
        return None
    kept, common = types_of_sum(node)
    if isinstance(node.op, IncSubtensor) or getattr(node.op, "ignore_duplicates", False):
        if np.can_cast(common, kept, "same_kind"):
            return None
        return f"NumPy does not put a sum of type {common} into an array of type {kept}"
    if _adds_up(kept, common) or _counts(*node.inputs[:2]):
        return None
    return f"NumPy converts each sum of a repeated index to {kept}, JAX the last one"


def is_for_numpy_types(node: Apply) -> bool:
    """Return True for an update that no operations on entries replace.

    They convert to the declared types, and NumPy adds in another one, or the array holds another.
    """
    return other_sum(node) is not None or held_dtype(node.inputs[0]) is not None


def _adds_up(kept: np.dtype, common: np.dtype) -> bool:
    """Return True if it does not matter when sums are converted, but for rounding."""
    return common == kept or kept.kind in "fc" or (kept.kind in "iu" and common.kind in "iu")


def _counts(array: Variable, values: Variable) -> bool:
    """Return True for constants added to zeros, as `bincount` does: no sum is rounded."""
    if not isinstance(values, Constant) or np.any(np.asarray(values.data) < 0):
        return False
    return is_zero(array)


def adds_to_zeros(node: Apply) -> bool:
    """Return True if an update adds to zeros, to which others may have added before.

    Cost: a step for each of these.
    """
    array, update = node.outputs[0], node
    while update is not None and not getattr(update.op, "set_instead_of_inc", True):
        array = update.inputs[0]
        update = array.owner
    return update is not node and is_zero(array)


def is_zero_elsewhere(array: Variable) -> bool:
    """Return True for zeros into which others may have been written, or to which they were added.

    Cost: a step for each of these.
    """
    while (node := array.owner) is not None and hasattr(node.op, "set_instead_of_inc"):
        array = node.inputs[0]
    return is_zero(array)


def updates_before(array: Variable) -> int:
    """The number of updates that an array is the result of, one after the other.

    Cost: a step for each of these.
    """
    count = 0
    while (node := array.owner) is not None and hasattr(node.op, "set_instead_of_inc"):
        array, count = node.inputs[0], count + 1
    return count


def is_zero(array: Variable) -> bool:
    """Return True for an array of zeros, none of them -0.0.

    Cost: a step for each Op that has only laid them out.
    """
    while (node := array.owner) is not None:
        if isinstance(node.op, _OF_ENTRIES):
            array = node.inputs[0]
        elif isinstance(getattr(node.op, "scalar_op", None), Second):  # zeros_like
            array = node.inputs[1]
        else:
            return False
    if not isinstance(array, Constant):
        return False
    entries = np.asarray(array.data)
    if not entries.size or entries.flat[0] != 0:  # before a look at all of a large one
        return False
    return not np.any(entries) and not np.any(np.signbit(np.real(entries)))


_OF_ENTRIES = (Alloc, DimShuffle, Fitted, Indexable, Stretched, Subtensor)
"""The Ops whose results have entries of the first input, and 0 beside these."""
