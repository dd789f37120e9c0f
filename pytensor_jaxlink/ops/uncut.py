"""Results whose lengths are data: they leave a region uncut, with their true lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op, OutputStorageType
from pytensor.tensor.type import lscalar


class Uncut(Op):
    """An array and its lengths along some axes; more entries may follow there.

    Whoever reads it cuts it to these lengths.  `link.padded_graph` puts it at results, and
    rewriting makes it an array of full length (`rewriting.allocations`).

    Parameters
    ----------
    axes
        The axes.
    """

    __props__ = ("axes",)

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the same type, with open lengths, and an integer for each axis."""
        [array] = inputs
        kind = array.type
        shape = [None if axis in self.axes else n for axis, n in enumerate(kind.shape)]
        lengths = [lscalar() for _ in self.axes]
        return Apply(self, [array], [kind.clone(shape=tuple(shape))(), *lengths])

    def perform(
        self, node: Apply, inputs: Sequence[np.ndarray], output_storage: OutputStorageType
    ) -> None:
        """The array as it is: no entries follow."""
        [array] = inputs
        output_storage[0][0] = array.copy()
        for axis, cell in zip(self.axes, output_storage[1:], strict=True):
            cell[0] = np.array(array.shape[axis])
