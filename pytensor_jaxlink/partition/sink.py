"""Nodes that may run in several regions go where they move the least data.

The schedule is as early as possible.  A node whose every reader is in a later region may as well
run there: what it reads then crosses between the regions instead of what it computes, and where
that is less (most often because it reads inputs of the function, which every region can take) XLA
also fuses it with its readers.  Nodes move only into regions in which something already
runs, so there are no more of them.

The new value of a shared variable counts as read by the last region: there the memory of the old
value can be reused (`runtime.donation`).  That is so if no host step follows, which may raise.
Where one does, a new value that is large opens a region after it if less crosses than it computes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from pytensor_jaxlink.analysis import NodeFacts
from pytensor_jaxlink.graph import GraphView, lengths_of
from pytensor_jaxlink.partition.schedule import Placement, Schedule


def sink(
    view: GraphView,
    facts: Sequence[NodeFacts],
    plan: Schedule,
    updates: Collection[int] = (),
    large: Collection[int] = (),
) -> Schedule:
    """Move nodes to later regions where that does not move more data.  Linear time.

    Parameters
    ----------
    view, facts, plan
        The graph and its schedule.
    updates
        The positions of the outputs that are new values of shared variables.
    large
        Those of them for which a copy takes longer than one more region.
    """
    sinker = _Sinker(view, facts, plan, updates, large)
    for node in reversed(range(len(view.nodes))):
        if plan.placement[node] is Placement.REGION:
            sinker.move(node)
    return replace(plan, stage=tuple(sinker.stage))


class _Sinker:
    def __init__(
        self,
        view: GraphView,
        facts: Sequence[NodeFacts],
        plan: Schedule,
        updates: Collection[int],
        large: Collection[int],
    ) -> None:
        self.view, self.facts, self.placement = view, facts, plan.placement
        self.stage = list(plan.stage)
        # What the function returns, and what is copied to the host before the later region.
        outputs = [number for k, number in enumerate(view.outputs) if k not in updates]
        self.kept = frozenset(outputs).union(
            *(plan.knowledge[number].fetches for fact in facts for number in fact.sizes)
        )
        self.updates = frozenset(view.outputs) - self.kept
        self.following: set[int] = set()  # what only their computation reads
        self.end, self.opens = self._end()
        self.late = frozenset(view.outputs[k] for k in large) if self.opens else self.updates
        self.last_reader = [
            max((self.stage[reader] for reader in readers), default=-1)
            for readers in view.consumers
        ]

    def _end(self) -> tuple[int, bool]:
        """The last region, and whether it would be one more: one after the host steps."""
        stages = zip(self.placement, self.stage, strict=True)
        last, after = -1, -1
        for placement, stage in stages:
            if placement is Placement.REGION:
                last = max(last, stage)
            elif placement is Placement.HOST:
                after = max(after, stage)
        return max(last, after), after > last

    def move(self, node: int) -> None:
        target = self._latest(node)
        if target <= self.stage[node] or not self._pays(node, target):
            return
        self.stage[node] = target
        outputs = self.view.node_outputs[node]
        is_new_state = any(n in self.updates or n in self.following for n in outputs)
        for number in self.view.node_inputs[node]:
            self.last_reader[number] = max(self.last_reader[number], target)
            if is_new_state and self._would_follow(number):
                self.following.add(number)

    def _latest(self, node: int) -> int:
        """The last region in which all readers still find the node's outputs."""
        readers: list[int] = []
        for number in self.view.node_outputs[node]:
            if number in self.kept:
                return self.stage[node]
            if number in self.updates:
                readers.append(self.end if number in self.late else self.stage[node])
            for reader in self.view.consumers[number]:
                facts = self.facts[reader]
                if self.placement[reader] is not Placement.REGION or number in (
                    *facts.sizes,
                    *facts.data,
                    *facts.shape_only,
                ):
                    return self.stage[node]
                readers.append(self.stage[reader])
        return min(readers, default=self.stage[node])

    def _pays(self, node: int, target: int) -> bool:
        """Return True if no more data would cross than now; to open a region, if less would.

        What only the computation of a new state reads follows it, unless it is a number.
        """
        outputs = self.view.node_outputs[node]
        if not self.following.isdisjoint(outputs):
            return True
        crossing, added = list(self._crossing(node, target)), 0
        while crossing:
            number = crossing.pop()
            if not self.updates.isdisjoint(outputs) and self._would_follow(number):
                crossing += self._crossing(self.view.producer[number], target)
            else:
                added += self._weight(number)
        now = sum(map(self._weight, outputs))
        opening = self.opens and not self.updates.isdisjoint(outputs)
        return added < now if opening else added <= now

    def _would_follow(self, number: int) -> bool:
        alone = len(self.view.consumers[number]) == 1 and number not in self.kept
        return alone and self._weight(number) > 1

    def _crossing(self, node: int, target: int) -> Iterator[int]:
        """The variables that a node reads and that would cross between regions if it moved."""
        facts = self.facts[node]
        for number in set(self.view.node_inputs[node]).difference(facts.sizes, facts.data):
            producer = self.view.producer[number]
            if producer < 0 or self.placement[producer] is not Placement.REGION:
                continue
            crosses_already = self.last_reader[number] > self.stage[producer]
            if self.stage[producer] < target and not crosses_already:
                yield number

    def _weight(self, number: int) -> int:
        """A stand-in for the size of a variable: an unknown dimension counts as 100."""
        weight = 1
        for length in lengths_of(self.view.variables[number]):
            weight *= 100 if length is None else max(length, 1)
        return weight
