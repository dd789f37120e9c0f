"""Results of a length that is known only when a region has run: they are cut when they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op, OutputStorageType

from pytensor_jaxlink.graph import Text, written


class CutResult(Op):
    """An indexing by slices, or by a mask, of an array that leaves a region.

    It is a step of its own in a plan (`plan.CutOff`).  Rewriting puts it at outputs
    (`rewriting.cut_results`); no graph that a user writes holds it.

    Parameters
    ----------
    indexing
        PyTensor's Op for the same.
    """

    __props__ = ("indexing",)

    def __init__(self, indexing: Any) -> None:
        self.indexing = indexing

    @property
    def idx_list(self) -> Any:
        """The indices, as PyTensor's Ops have them."""
        return self.indexing.idx_list

    def make_node(self, *inputs: Variable) -> Apply:
        """An array of the type that the indexing gives."""
        made = self.indexing.make_node(*inputs)
        return Apply(self, made.inputs, [made.outputs[0].type()])

    def perform(
        self, node: Apply, inputs: Sequence[np.ndarray], output_storage: OutputStorageType
    ) -> None:
        """Index."""
        self.indexing.perform(node, inputs, output_storage)

    def __str__(self) -> str:
        return str(self.indexing)


@written.register(CutResult)
def _written(op: CutResult, node: Apply, text: Text) -> str:
    return written(op.indexing, node, text)
