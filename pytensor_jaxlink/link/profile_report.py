"""The times of steps in PyTensor's own profiles: ``profile=True`` and ``config.profile``.

PyTensor's report has a line for each node.  A region computes many nodes as one program, so its
time belongs to none of them: the report is given a graph with one node for each row of ours.
"""

from __future__ import annotations

import re
from functools import cache

from pytensor.compile.debug.profiling import ProfileStats
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.link.c.type import generic

from pytensor_jaxlink.runtime import ARGUMENTS, CALL, SLOW_PATH, Row, Times

_OF_CALLS = {ARGUMENTS.kind, CALL.kind, SLOW_PATH.kind}
"""The rows that are no steps: PyTensor takes the time of whole calls itself."""


class Report:
    """Gives PyTensor's profile of a function the times that clocks have taken.

    Attributes
    ----------
    times
        Those since the last time that the profile was given some.
    """

    def __init__(self) -> None:
        self.times = Times()
        self._graph, self._nodes = FunctionGraph([], [], clone=False), dict[Row, Apply]()

    def __call__(self, profile: ProfileStats) -> None:
        """Add the times to a profile: PyTensor asks for it at the end of each call."""
        for row, total in self.times.totals(anew=True).items():
            if row.kind not in _OF_CALLS:
                node = self._node(row)
                assert profile.apply_cimpl is not None
                profile.apply_time[self._graph, node] += total.time / 1e9
                profile.apply_callcount[self._graph, node] += total.count
                profile.apply_cimpl[node] = row.kind in ("region", "wait")

    def _node(self, row: Row) -> Apply:
        if row not in self._nodes:
            self._nodes[row] = Apply(_step(row), [], [generic()])
            self._graph.add_output(self._nodes[row].outputs[0], import_missing=True)
        return self._nodes[row]


class _Step(Op):
    """A step in a report, which nobody runs."""

    __props__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row

    def __str__(self) -> str:
        return f"{self.row.name} at {self.row.where}" if self.row.where else self.row.name

    def __reduce__(self) -> tuple[object, ...]:
        return _step, (self.row,)  # pickle does not find classes that are made here

    def perform(self, node: Apply, inputs: object, output_storage: object) -> None:
        """Refuse."""
        raise NotImplementedError


def _step(row: Row) -> _Step:
    return _class_of(row.kind)(row)


@cache
def _class_of(kind: str) -> type[_Step]:
    """The class of steps of a kind: PyTensor adds the times of each class up."""
    name = "".join(map(str.capitalize, re.findall(r"\w+", kind)))
    return type(name, (_Step,), {"__module__": __name__})
