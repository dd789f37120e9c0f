"""The plan: regions, and what runs between and after them, in their order; and its checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, Literal

from pytensor_jaxlink.plan.loop import LoopLayout

_MOST_AXES = 64
"""Of an array of NumPy."""


def how_many(count: int, noun: str) -> str:
    """A number of things in words: "1 region", "2 regions"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Region:
    """A part of the graph that is compiled by one `jax.jit`.

    Attributes
    ----------
    index
        Its number, from 0.
    static
        The values that select a specialisation, passed as one hashable tuple.
    arguments
        The values passed as arrays.
    results
        The values it returns.
    operations
        What it runs, in order, for people and for the checker.
    """

    index: int
    static: tuple[int, ...]
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    operations: tuple[str, ...]
    kind: ClassVar[Literal["region"]] = "region"

    @property
    def title(self) -> str:
        """Its number and its size, for people."""
        return f"{self.index}: {how_many(len(self.operations), 'operation')}"

    @property
    def reads(self) -> tuple[int, ...]:
        """All values it needs."""
        return (*self.static, *self.arguments)

    @property
    def writes(self) -> tuple[int, ...]:
        """All values it computes."""
        return self.results


@dataclass(frozen=True)
class _OnHost:
    """An operation that is run from the host, with the values it takes and gives."""

    operation: str
    arguments: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def title(self) -> str:
        """The operation."""
        return self.operation

    @property
    def reads(self) -> tuple[int, ...]:
        """All values it needs."""
        return self.arguments

    @property
    def writes(self) -> tuple[int, ...]:
        """All values it computes."""
        return self.results


@dataclass(frozen=True)
class HostStep(_OnHost):
    """One operation that runs on the host, on NumPy arrays.

    `folded` marks arithmetic on sizes, as against an operation that JAX cannot run.
    """

    folded: bool
    kind: ClassVar[Literal["host step"]] = "host step"


@dataclass(frozen=True)
class Fetch:
    """One value that a region computed, copied to the host because JAX must know it."""

    value: int
    kind: ClassVar[Literal["fetch"]] = "fetch"
    title: ClassVar[str] = ""

    @property
    def reads(self) -> tuple[int, ...]:
        """The value."""
        return (self.value,)

    @property
    def writes(self) -> tuple[int, ...]:
        """The value, on the host."""
        return (self.value,)


BOUNDS = "start", "stop", "step"
"""The bounds of a slice, as an index names those that it has."""

WHOLE, MASK = "", "mask"
"""The indices of a dimension that is there as a whole, and of those that a mask selects from."""


@dataclass(frozen=True)
class CutOff(_OnHost):
    """A result of a length that is computed: the part of a full array that leaves.

    The first argument is the array.  The others are the values of the indices, in their order.

    Attributes
    ----------
    index
        The index of each dimension: `WHOLE`, `MASK`, or the names of the bounds that a slice has,
        as ``"start stop"``.  Dimensions that follow are there as a whole.
    """

    index: tuple[str, ...]
    kind: ClassVar[Literal["cut"]] = "cut"

    @property
    def count(self) -> int:
        """How many arguments the indices take, with the array."""
        return 1 + sum(len(entry.split()) for entry in self.index)


@dataclass(frozen=True)
class HostLoop(_OnHost):
    """A loop executed by the host, whose body, the one plan of `inner`, has regions of its own.

    `layout` tells the parts of `arguments`, which are the inputs of PyTensor's `Scan`.  The results
    are its outputs, then the lengths of the outputs that `measured` lists.  `emitted` has the dtype
    and the rank of each output that no step reads, of which a loop without steps gives an array
    without entries.
    """

    inner: tuple[Plan]
    layout: LoopLayout
    measured: tuple[int, ...] = ()
    emitted: tuple[tuple[str, int], ...] = ()
    kind: ClassVar[Literal["loop"]] = "loop"


@dataclass(frozen=True)
class HostBranch(_OnHost):
    """A choice made on the host: one of two plans runs, on all arguments but the first.

    The first argument is the condition; `inner` is the plan for when it holds, then the other.
    """

    inner: tuple[Plan, Plan]
    kind: ClassVar[Literal["branch"]] = "branch"


Step = Region | HostStep | Fetch | CutOff | HostLoop | HostBranch


@dataclass(frozen=True)
class Plan:
    """How a function runs.  Values are numbers; `names` tells people what they are.

    Attributes
    ----------
    inputs, outputs
        The values the function takes and gives, updates after outputs.
    constants
        Values known when the function was built.
    steps
        What runs, in order.
    names
        A name for each value.
    generators
        The values that are random generators (inside regions: keys).
    sparse
        The values that are sparse matrices (inside regions: their arrays).
    lines
        The user's line of each value that selects a specialisation, or is cut, if one is known.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...]
    steps: tuple[Step, ...]
    names: tuple[str, ...]
    generators: frozenset[int] = frozenset()
    sparse: frozenset[int] = frozenset()
    lines: Mapping[int, str] = field(default_factory=dict[int, str], compare=False)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The JIT regions, in order, those of loops and branches executed by the host included."""
        return tuple(region for _, region in self.located_regions())

    @property
    def own_regions(self) -> tuple[Region, ...]:
        """Those that are steps of its own, whose numbers are those of its values."""
        return tuple(step for step in self.steps if isinstance(step, Region))

    @property
    def is_one_region(self) -> bool:
        """True for one region without static values, whose results may be cut."""
        match [step for step in self.steps if not isinstance(step, CutOff)]:
            case [Region(static=())]:
                return True
            case _:
                return False

    @property
    def takes_arrays(self) -> bool:
        """True for one such region of arrays, which takes inputs and constants."""
        if not self.is_one_region:
            return False
        [region] = self.own_regions
        passed = {*region.arguments, *region.results}
        known = {*self.inputs, *self.constants}
        return set(region.arguments) <= known and not passed & (self.generators | self.sparse)

    @property
    def is_whole(self) -> bool:
        """True for one such region, which gives all outputs."""
        made = {number for region in self.own_regions for number in region.results}
        return self.takes_arrays and made >= set(self.outputs)

    def located_regions(self) -> Iterator[tuple[Plan, Region]]:
        """Each region with the plan it belongs to, whose names its values have."""
        for step in self.steps:
            if isinstance(step, Region):
                yield self, step
            elif isinstance(step, HostLoop | HostBranch):
                for plan in step.inner:
                    yield from plan.located_regions()

    def __str__(self) -> str:
        lines = [f"inputs   {self._list(self.inputs)}"]
        for step in self.steps:
            lines.append(self._line(step))
            if isinstance(step, HostLoop | HostBranch):
                for plan in step.inner:
                    lines += [f"    {line}" for line in str(plan).splitlines()]
        lines.append(f"outputs  {self._list(self.outputs)}")
        return "\n".join(lines)

    def _list(self, values: tuple[int, ...]) -> str:
        return ", ".join(f"%{value} {self.names[value]}" for value in values) or "-"

    def _line(self, step: Step) -> str:
        match step:
            case Fetch(value):
                return f"fetch    {self._list((value,))}"
            case HostStep(operation, arguments, results, folded):
                kind = "numpy" if folded else "host"
                return f"{kind:<8} {operation}: {self._list(arguments)} -> {self._list(results)}"
            case CutOff(operation, arguments, results):
                return f"cut      {operation}: {self._list(arguments)} -> {self._list(results)}"
            case HostLoop() | HostBranch():
                kind = "loop" if isinstance(step, HostLoop) else "branch"
                reads, writes = self._list(step.arguments), self._list(step.results)
                return f"{kind:<8} {step.operation}: {reads} -> {writes}"
            case Region():
                static = f" static {self._list(step.static)};" if step.static else ""
                return (
                    f"region {step.index} [{len(step.operations)} operations]{static} "
                    f"{self._list(step.arguments)} -> {self._list(step.results)}"
                )


# -- an independent check: a plan can be run from top to bottom -----------------------------------


def check_plan(plan: Plan) -> None:
    """Raise `AssertionError` unless the plan is acyclic, complete and free of repetition.

    Every value is available before it is read and computed once; what selects a specialisation,
    and what NumPy computes with, has been brought to the host; every region computes something.
    """
    _check_part(plan)
    indices = [region.index for region in plan.regions]
    assert indices == list(range(len(indices))), f"the regions are numbered {indices}"


def _check_part(plan: Plan) -> None:
    """The same for the plan of a loop or branch, whose regions are numbered with the others."""
    _check_order(plan)
    values = {*plan.inputs, *plan.constants, *plan.outputs, *plan.generators, *plan.sparse}
    values.update(value for step in plan.steps for value in (*step.reads, *step.writes))
    unknown = values - {*range(len(plan.names))}
    assert not unknown, f"the values {unknown} have no names"
    for step in plan.steps:
        for inner in _checked_inner(step):
            _check_part(inner)


def _checked_inner(step: Step) -> tuple[Plan, ...]:
    """The plans of a loop or branch, which take and give what it does."""
    match step:
        case HostLoop(_, arguments, results, inner, layout, measured, emitted):
            inputs, outputs, of_loop = layout.counts(len(arguments))
            fits = len(results) == of_loop + len(measured) and {*measured} <= {*range(of_loop)}
            fits &= not emitted or len(emitted) == layout.emitted
            fits &= all(0 < rank <= _MOST_AXES for _, rank in emitted)
            assert fits, f"{step.title} has other results than its layout"
        case HostBranch(_, arguments, results, inner):
            inputs, outputs = len(arguments) - 1, len(results)
        case _:
            return ()
    for plan in inner:
        found = len(plan.inputs), len(plan.outputs)
        assert found == (inputs, outputs), f"a plan in {step.title} takes and gives other values"
    return inner


def _check_order(plan: Plan) -> None:
    given = {*plan.inputs, *plan.constants}
    arrays, on_host = set(given), set(given)
    for position, step in enumerate(plan.steps):
        where = f"step {position} of the plan"
        match step:
            case Fetch(value):
                assert value in arrays, f"{where} fetches {value} before it is computed"
                on_host.add(value)
            case HostStep(_, arguments, results, folded=True):
                missing = set(arguments) - on_host
                assert not missing, f"{where} computes with {missing}, which are not on the host"
                repeated = set(results) & on_host
                assert not repeated, f"{where} computes {repeated} again"
                on_host.update(results)
            case HostLoop(_, arguments, results) | HostBranch(_, arguments, results):
                _check_step(where, arguments, results, arrays, arrays | on_host)
                on_host.update(results)
            case HostStep(_, arguments, results) | CutOff(_, arguments, results):
                _check_step(where, arguments, results, arrays, arrays | on_host)
                on_host.update(results)
                if isinstance(step, CutOff):
                    _check_index(where, step)
            case Region(_, static, arguments, results):
                _check_step(where, arguments, results, arrays, arrays)
                missing = set(static) - on_host
                assert not missing, f"{where} depends on {missing}, which are not on the host"
                assert results, f"{where} is a region without results"
    missing = set(plan.outputs) - arrays
    assert not missing, f"the outputs {missing} are never computed"


def _check_index(where: str, step: CutOff) -> None:
    known = {
        WHOLE,
        MASK,
        *(" ".join(names) for k in (1, 2, 3) for names in combinations(BOUNDS, k)),
    }
    unknown = set(step.index) - known
    assert not unknown, f"{where} cuts by {unknown}"
    fits = (len(step.arguments), len(step.results)) == (step.count, 1)
    assert fits, f"{where} cuts by {step.index}, with {len(step.arguments)} values"


def _check_step(
    where: str,
    arguments: tuple[int, ...],
    results: tuple[int, ...],
    arrays: set[int],
    available: set[int],
) -> None:
    missing = set(arguments) - available
    assert not missing, f"{where} reads {missing} before they are computed"
    repeated = set(results) & arrays
    assert not repeated, f"{where} computes {repeated} again"
    arrays.update(results)
