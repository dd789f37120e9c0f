"""Arguments padded to a few lengths: one program serves every length up to its bucket.

JAX compiles for each shape.  An argument whose length changes is padded to the next *bucket*, and
its true length goes along as data.  The plan cuts outputs of that length (`plan.CutOff`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import log2, prod
from operator import ge, index
from typing import Any, Protocol

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NewSizeError, NotAcceptedError
from pytensor_jaxlink.runtime.bindings import Boundary
from pytensor_jaxlink.runtime.clocks import PADDED, Function, Recorder
from pytensor_jaxlink.runtime.devices import to_numpy
from pytensor_jaxlink.runtime.ending import as_jax_array
from pytensor_jaxlink.runtime.executor import Executor, FastPath
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of, device_put
from pytensor_jaxlink.runtime.waiting import all_hold

Place = tuple[int, int]
"""The position of an argument, and one of its axes."""

SMALLEST_BUCKETS = (64, 256, 1024)
"""The candidates for the smallest bucket; see `smallest_bucket`."""

_TOO_LONG = 1 << 40
"""Entries; more are a mistake, and PyTensor's own error is the right one."""

_COMPILATION = 200_000_000
"""Entries; to compute as many takes about as long as compiling a small program: 0.2 s."""

_OFTEN = 32
_SHARE = 16


Buckets = Sequence[int] | Callable[[int], int] | None
"""The lengths to which arrays are padded, or a function that gives the one for a length."""


def bucket_of(buckets: Buckets, smallest: int = SMALLEST_BUCKETS[0]) -> Callable[[int], int]:
    """The function that gives the bucket of a length.

    Parameters
    ----------
    buckets
        The lengths to which one is padded, or a function that gives the one for a length.  The
        powers of two follow on them.
    smallest
        The smallest of these.
    """
    if not callable(buckets):
        return partial(_listed, tuple(sorted(buckets or ())), smallest)
    chosen = buckets

    def bucket(length: int) -> int:
        found = int(chosen(length))
        if found < length:
            text = (
                f"JAXLinker(buckets={chosen!r}) gave {found} for an array of length {length}; "
                "a bucket has to be at least as long as what is padded to it"
            )
            raise ValueError(Code.OPTIONS.mark(text))
        return found

    return bucket


def _listed(buckets: Sequence[int], smallest: int, length: int) -> int:
    place = bisect_left(buckets, length)
    if place < len(buckets):
        return buckets[place]
    return max(smallest, 1 << (length - 1).bit_length())


@dataclass(frozen=True)
class Work:
    """How much a program computes, by the lengths to which its arguments are padded.

    Attributes
    ----------
    entries
        The entries that it computes where each length is the shortest bucket.
    power
        The power of a length with which they grow, where all lengths do.
    """

    entries: float
    power: float

    @classmethod
    def measured(cls, entries: Callable[[int], int | None]) -> Work | None:
        """Of a program whose entries can be asked for; None where nobody knows.

        Cost: two traces.
        """
        shortest = SMALLEST_BUCKETS[0]
        known, doubled = entries(shortest), entries(2 * shortest)
        if not known or not doubled:
            return None
        return cls(known, log2(doubled / known))

    def at(self, buckets: Sequence[int]) -> float:
        """The entries that the program computes for some buckets."""
        if not buckets:
            return self.entries
        longer = prod(bucket / SMALLEST_BUCKETS[0] for bucket in buckets)
        return self.entries * longer ** (self.power / len(buckets))

    def smallest_bucket(self, little: int) -> int:
        """The largest of the candidates at which so little is computed; else the shortest."""
        little_at = [bucket for bucket in SMALLEST_BUCKETS if self.at([bucket]) <= little]
        return max(little_at, default=SMALLEST_BUCKETS[0])


@dataclass(frozen=True)
class Padding:
    """Which arguments are padded.

    Attributes
    ----------
    groups
        The dimensions of arguments that are padded; those of a group are equally long.
    bucket
        Gives the length to which one is padded.
    sizes
        The positions of integers, on which lengths of outputs depend.
    unbounded
        The positions of those that no array bounds: the lengths of vectors that are padded.
    work
        How much the program of a bucket computes, if a longer one may serve; see `Programs`.
    """

    groups: tuple[tuple[Place, ...], ...]
    bucket: Callable[[int], int]
    sizes: tuple[int, ...] = ()
    unbounded: tuple[int, ...] = ()
    work: Work | None = None

    @property
    def count(self) -> int:
        """How many buckets there are in a call."""
        return len(self.groups) + len(self.unbounded)

    @cached_property
    def _firsts(self) -> tuple[Place, ...]:
        return tuple(group[0] for group in self.groups)

    @cached_property
    def _others(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((*place, k) for k, group in enumerate(self.groups) for place in group[1:])

    @cached_property
    def _axes(self) -> Mapping[int, Sequence[tuple[int, int]]]:
        """For each argument that is padded, the axes and the numbers of their groups."""
        found: dict[int, list[tuple[int, int]]] = {}
        for number, group in enumerate(self.groups):
            for position, axis in group:
                found.setdefault(position, []).append((axis, number))
        return found

    def lengths(self, values: Sequence[Any]) -> tuple[int, ...] | None:
        """The length of each group, then the sizes.

        None where the arguments of a group have different lengths.

        Raises
        ------
        NotAcceptedError
            For what is no array of such a rank.
        """
        try:
            found = tuple([values[position].shape[axis] for position, axis in self._firsts])
            for position, axis, number in self._others:
                if values[position].shape[axis] != found[number]:
                    return None
            if self.sizes:
                found += tuple([index(values[position]) for position in self.sizes])
        except (AttributeError, IndexError, TypeError):
            raise NotAcceptedError from None
        return found

    def can_pad(self, values: Sequence[object], lengths: Sequence[int]) -> bool:
        """Return True if the arguments are NumPy arrays, or those of JAX on one device.

        Numbers that no array bounds have to be lengths, and not too large.
        """
        return all(_is_in_one_place(values[position]) for position in self._axes) and (
            not self.unbounded or all(0 <= n < _TOO_LONG for n in self._bounded(lengths))
        )

    def buckets(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The bucket of each group, and of each number that no array bounds."""
        return tuple(map(self.bucket, self._bounded(lengths)))

    def _bounded(self, lengths: Sequence[int]) -> Sequence[int]:
        """The lengths that have buckets."""
        first = len(self.groups)
        sizes = dict(zip(self.sizes, lengths[first:], strict=False))
        return (*lengths[:first], *[sizes[position] for position in self.unbounded])

    def pad(
        self, values: Sequence[Any], lengths: Sequence[int], buckets: Sequence[int], stats: Stats
    ) -> list[object]:
        """The arguments at the buckets' lengths, then the true lengths, and room for numbers."""
        padded, first = list(values), len(self.groups)
        for position, axes in self._axes.items():
            value = padded[position]
            shape = list(value.shape)
            for axis, number in axes:
                shape[axis] = buckets[number]
            padded[position] = _padded(value, shape, stats)
        rooms = [np.broadcast_to(_NOTHING, bucket) for bucket in buckets[first:]]
        return [*padded, *[np.array(length) for length in lengths[:first]], *rooms]


_NOTHING = np.zeros((), "int8")  # only the shape of what it fills is read


class Programs:
    """The programs of buckets, and which of them serves a call.

    The one of a longer bucket serves a shorter one too, but computes more.  So a bucket gets a
    program of its own when others have computed as much for it in vain as compiling costs.  Who
    does not know how many calls will follow pays at most twice as much as who does; it is the rule
    of `runtime.waiting`.

    Parameters
    ----------
    padding
        The padding of the arguments.
    """

    def __init__(self, padding: Padding) -> None:
        self._padding = padding
        self._compiled: tuple[tuple[int, ...], ...] = ()
        self._in_vain: Counter[tuple[int, ...]] = Counter()

    def serving(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The buckets whose program serves a call."""
        own, work = self._padding.buckets(lengths), self._padding.work
        if work is None or own in self._compiled:
            return own
        longer = [each for each in self._compiled if all(map(ge, each, own))]
        if longer:
            found = min(longer, key=work.at)
            self._in_vain[own] += round(work.at(found) - work.at(own))
            if self._in_vain[own] < _COMPILATION:
                return found
        return self.compiled_for(lengths)

    def compiled_for(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The buckets of some lengths, for which there is a program from now on."""
        own = self._padding.buckets(lengths)
        self._compiled = tuple(dict.fromkeys((*self._compiled, own)))
        return own


def _padded(value: Any, shape: list[int], stats: Stats) -> object:
    """A longer array; zeros are behind the values."""
    if type(value) is jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, value.dtype)
    if (*shape,) == value.shape:
        return value
    # By NumPy: JAX would compile a program for each length.
    found = np.zeros(shape, value.dtype)
    found[tuple([slice(length) for length in value.shape])] = to_numpy(value, stats)
    return device_put(found, value.sharding) if _is_committed(value) else found


def kind_of(value: Any) -> Any:
    """The shape and dtype of an array; other values as they are."""
    if class_of(value) is not ARRAY and class_of(value) is not np.ndarray:
        return value
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _is_committed(value: Any) -> bool:
    return type(value) is ARRAY and value.committed


def _is_in_one_place(value: Any) -> bool:
    kind = class_of(value)
    if kind is ARRAY:
        return len(value.sharding.device_set) == 1
    return kind is np.ndarray or kind is jax.ShapeDtypeStruct


class PaddedGraph(Protocol):
    """The compiled graph of padded arguments and their lengths."""

    @property
    def executor(self) -> Any:
        """The function that runs it."""
        ...

    @property
    def stats(self) -> Stats:
        """Its counters."""
        ...


class Dispatch:
    """Sends a call to the programs for its own lengths, or to the one of its bucket.

    A length that comes back in many of the calls gets a program of its own, as long as there are
    fewer than ``limit`` of these: the padded one computes up to twice as much.

    Parameters
    ----------
    own
        Runs arguments of the lengths that are compiled for.
    padded
        The graph of padded arguments.
    padding
        Its arguments and outputs.
    stats
        The counters of the function.
    kept
        The lengths that are compiled for.
    limit
        How many these may be.
    unequal
        Finishes a call whose arguments are not as long as each other.
    regroup
        Finishes a call in which further lengths have changed.
    """

    def __init__(  # noqa: PLR0913 -- one for each way of a call
        self,
        own: Executor,
        padded: PaddedGraph,
        padding: Padding,
        stats: Stats,
        *,
        kept: set[tuple[int, ...]],
        limit: int,
        unequal: Callable[[Sequence[object]], Sequence[object]],
        regroup: Callable[[Sequence[object], NewSizeError], Sequence[object]],
    ) -> None:
        self.own, self._padded, self._padding, self._stats = own, padded, padding, stats
        self._kept, self._limit, self._unequal, self._regroup = kept, limit, unequal, regroup
        self._pad, self._programs = padding.pad, Programs(padding)
        self._counts: Counter[tuple[int, ...]] = Counter()
        self._noted: set[tuple[int, ...]] = set()

    def __call__(self, inputs: Sequence[object]) -> list[object]:
        """Run the plan.  Returns outputs and updates, as they come: on the device or not."""
        lengths = self._padding.lengths(inputs)
        if lengths is None:
            self._stats.general_calls += 1
            return list(self._unequal(inputs))
        if self._is_own(lengths, inputs) or not self._padding.can_pad(inputs, lengths):
            return self.own(inputs)
        try:
            padded = self._pad(inputs, lengths, self._programs.serving(lengths), self._stats)
            outputs = self._padded.executor(padded)
        except NewSizeError as error:
            return list(self._regroup(inputs, error))
        self._stats.general_calls += 1
        self._stats.padded_calls += 1
        return outputs

    def record(self, recorder: Recorder | None) -> None:
        """Have clocks take the times of calls from now on; see `Executor.record`."""
        self._pad = self._padding.pad
        if recorder is not None:
            self._pad = recorder.timed(PADDED, self._pad)
        self.own.record(recorder)
        if isinstance(self._padded.executor, Executor):  # and no refusal to run
            self._padded.executor.record(recorder)

    def _is_own(self, lengths: tuple[int, ...], values: Sequence[object]) -> bool:
        if lengths in self._kept:
            return True
        counts = self._counts
        counts[lengths] += 1
        if counts[lengths] == 1 and len(self._noted) < self._limit:
            self._note(lengths, values)
        often = counts[lengths] >= _OFTEN and counts[lengths] * _SHARE >= self._stats.calls
        if often and len(self._kept) < self._limit:
            self._kept.add(lengths)
            return True
        if len(counts) > _SHARE * _OFTEN:  # each of them is rare
            counts.clear()
        return False

    def _note(self, lengths: tuple[int, ...], values: Sequence[object]) -> None:
        """Note lengths and sizes for which the own plan may be saved, if it is one region."""
        plan, signatures = self.own.plan, self._stats.signatures
        if lengths in self._noted or len(plan.regions) != 1:
            return
        self._noted.add(lengths)
        [region] = plan.regions
        if not set(region.reads) <= {*plan.inputs, *plan.constants}:
            return
        if not signatures[0]:  # sizes were data from the start
            if (kinds := self.own.kinds_of(region, values)) is not None:
                signatures[0].append(kinds)
            return
        static, known = signatures[0][0]
        kinds = dict(zip(region.arguments, known, strict=True))
        first = len(self._padding.groups)
        sizes = {
            plan.inputs[position]: size
            for position, size in zip(self._padding.sizes, lengths[first:], strict=True)
        }
        static = tuple(
            [sizes.get(n, value) for n, value in zip(region.static, static, strict=True)]
        )
        for group, length in zip(self._padding.groups, lengths, strict=False):
            for position, axis in group:
                number = plan.inputs[position]
                if number in kinds:
                    shape = [*kinds[number].shape]
                    shape[axis] = length
                    kinds[number] = jax.ShapeDtypeStruct(shape, kinds[number].dtype)
        signatures[0].append((static, [*kinds.values()]))

    def fast(
        self, own: FastPath, boundary: Boundary, pack: Callable[[list[object]], object] | None
    ) -> FastPath | None:
        """The dispatch as a function that goes straight to compiled code; see `Executor.fast`.

        Parameters
        ----------
        own
            The programs for their own lengths as such a function.
        boundary, pack
            How that one takes its arguments, and makes its answer.
        """
        padded = self._padded.executor.fast(
            self._without_lengths(boundary), None, None, repeatable=False
        )
        if padded is None:
            return None
        cells, forms = list(boundary.cells.values()), boundary.leave
        padding, programs, stats = self._padding, self._programs, self._stats

        def dispatching(own_call: Function, padded_call: Function) -> Function:
            def call(*args: object) -> object:
                values = [*args, *[cell[0] for cell in cells]]
                lengths = padding.lengths(values)
                if lengths is None:
                    return Result(None, (False,))  # the slow path says why
                if self._is_own(lengths, values) or not padding.can_pad(values, lengths):
                    return own_call(*args)
                values = self._pad(values, lengths, programs.serving(lengths), stats)
                result = _as_result(padded, padded_call(*values), values)
                if result.conditions and not all_hold(*result.conditions):
                    return Result(None, (False,))
                outputs = [
                    value if type(value) is ARRAY and not forms else _left(forms.get(k), value)
                    for k, value in enumerate(result.outputs)
                ]
                stats.padded_calls += 1
                stats.padded_direct += 1
                self._padded.stats.direct += 1
                return Result(pack(outputs) if own.packed and pack is not None else outputs)

            return call

        def timed(recorder: Recorder) -> Function:
            return dispatching(own.timed(recorder), padded.timed(recorder))

        def compile_for(values: list[object]) -> None:
            lengths = padding.lengths(values)
            if (
                lengths is None
                or lengths in self._kept
                or not self._padding.can_pad(values, lengths)
            ):
                own.compile(values)
            else:
                buckets = programs.compiled_for(lengths)
                padded.compile(padding.pad(values, lengths, buckets, stats))

        call = dispatching(own.call, padded.call)
        return FastPath(call, compile_for, timed, own.packed, own.result)

    def _without_lengths(self, boundary: Boundary) -> Boundary:
        """The boundary of the padded graph, all of whose inputs are arguments."""
        count = len(self.own.plan.inputs)

        def accepts(position: int, value: object) -> bool:
            return position >= count or boundary.accepts(position, value)

        def convert(position: int, value: object) -> Any:
            return value if position >= count else boundary.convert(position, value)

        return Boundary(accepts, convert, {}, {})


def _as_result(path: FastPath, found: Any, values: Sequence[object]) -> Result:
    kind = class_of(found)
    if kind is tuple and path.result is not None:
        return path.result(found, values)
    return found if kind is Result else Result(found)


def _left(form: Callable[[object], object] | None, value: Any) -> object:
    if form is not None:
        return form(value)
    return as_jax_array(value) if isinstance(value, np.ndarray | np.generic) else value
