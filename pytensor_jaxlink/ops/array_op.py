"""An Op with one array as its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op, OutputStorageType


class ArrayOp(Op):
    """An Op whose subclasses say how NumPy computes its output from the values of its inputs."""

    compute: Callable[..., np.ndarray]

    def perform(
        self, node: Apply, inputs: Sequence[np.ndarray], output_storage: OutputStorageType
    ) -> None:
        """Compute the output."""
        output_storage[0][0] = self.compute(*inputs)
