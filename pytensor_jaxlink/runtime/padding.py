"""Arguments padded to a few lengths: one program serves every length up to its bucket.

JAX compiles for each shape.  An argument whose length changes is padded to the next *bucket*, and
its true length goes along as data.  The plan cuts outputs of that length (`plan.CutOff`).  Which
calls are padded is the matter of `runtime.dispatch`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from operator import ge, index
from typing import Any, SupportsIndex

import jax
import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NotAcceptedError
from pytensor_jaxlink.runtime.padded_arrays import PaddedArrays
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of
from pytensor_jaxlink.size_functions import work_of

Place = tuple[int, int]
"""The position of an argument, and one of its axes."""

SMALLEST_BUCKETS = (64, 256, 1024)
"""The candidates for the smallest bucket; see `smallest_bucket`."""

FOR_MANY_AXES = 16
"""The smallest bucket where the shortest of these is too long: four of them make 16 million."""

_LONG = 1 << 14
"""The product of buckets from which on a program is traced to learn what it computes."""

MANY = 1 << 22
"""Entries that a padded program may compute, whatever another one does: they take some 10 ms."""

_TOO_LONG = 1 << 40
"""Entries; more are a mistake, and PyTensor's own error is the right one."""

_COMPILATION = 200_000_000
"""Entries; to compute as many takes about as long as compiling a small program: 0.2 s."""

_AHEAD = 100_000
"""Entries; a program that computes so many at most may be longer than the first call needs.

They take 0.1 ms at most, so in a thousand calls less than another compilation.
"""

Buckets = Sequence[int] | Callable[[int], int] | None
"""The lengths to which arrays are padded, or a function that gives the one for a length."""


def _shortest() -> int:
    return SMALLEST_BUCKETS[0]


def bucket_of(buckets: Buckets, smallest: Callable[[], int] = _shortest) -> Callable[[int], int]:
    """The function that gives the bucket of a length.

    Parameters
    ----------
    buckets
        The lengths to which one is padded, or a function that gives the one for a length.  The
        powers of two follow on them.
    smallest
        Gives the smallest of these; called for lengths that it may concern.
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


def _listed(buckets: Sequence[int], smallest: Callable[[], int], length: int) -> int:
    place = bisect_left(buckets, length)
    if place < len(buckets):
        return buckets[place]
    power = 1 << (length - 1).bit_length()
    return power if power >= SMALLEST_BUCKETS[-1] else max(smallest(), power)


def _power(length: int) -> int:
    """The shortest bucket of a length, whatever is computed."""
    return max(SMALLEST_BUCKETS[0], 1 << (length - 1).bit_length())


class Work:
    """How much the programs of buckets compute.

    Most calls need no figure.  For one that is needed JAX traces the program, once.

    Parameters
    ----------
    measure
        Gives the entries that the program of some buckets computes; None where nobody knows.
    most
        Gives those of the largest program that has been traced to be compiled; 0 before.
    """

    def __init__(
        self, measure: Callable[[Sequence[int]], int | None], most: Callable[[], int]
    ) -> None:
        self._measure, self._most = measure, most
        self._known: dict[tuple[int, ...], int | None] = {}

    def at(self, buckets: tuple[int, ...]) -> int | None:
        """The entries that the program of some buckets computes, if it is known."""
        if buckets not in self._known:
            self._known[buckets] = self._measure(buckets) or None
        return self._known[buckets]

    def smallest_bucket(self, count: int, little: int) -> int:
        """The largest of the candidates at which so little is computed; else the shortest.

        ``count`` is the number of buckets in a call; all of them have that length.  Arrays with
        several axes of such a length may have far too many entries.
        """
        shortest = SMALLEST_BUCKETS[0]
        for bucket in reversed(SMALLEST_BUCKETS):
            entries = self.at((bucket,) * count)
            if entries is None or entries <= little:
                return bucket if entries is not None else shortest
        return shortest if (self.at((shortest,) * count) or 0) <= MANY else FOR_MANY_AXES

    def is_asked(self, lengths: Sequence[int]) -> bool:
        """Return True if it matters what the program of some lengths computes.

        No program is traced for the sake of a few short axes.
        """
        shortest = tuple(map(_power, lengths))
        return prod(shortest) >= _LONG or shortest in self._known

    def is_at_most(self, most: int, buckets: tuple[int, ...]) -> bool:
        """Return True if a program as long is known to compute at most so many entries."""
        known = [(each, entries) for each, entries in self._known.items() if entries is not None]
        return any(entries <= most and all(map(ge, each, buckets)) for each, entries in known)

    def ahead(self, lengths: Sequence[int]) -> tuple[int, ...] | None:
        """The buckets to compile for, where no program is long enough for a call.

        Other lengths follow on those of one call.  So each bucket is made as long as one of the
        candidates, if the program computes little enough then, or at least the longest one is.

        Returns
        -------
        tuple of int or None
            None where the buckets of the call are long enough.
        """
        own = tuple(map(_power, lengths))
        most, longest = SMALLEST_BUCKETS[-1], max(own)
        tried = [tuple(max(each, bucket) for each in own) for bucket in SMALLEST_BUCKETS[:0:-1]]
        tried.insert(1, tuple(max(each, most) if each == longest else each for each in own))
        for buckets in dict.fromkeys(tried):
            if buckets == own or (entries := self.at(buckets)) is None:
                return None
            if entries <= _AHEAD:
                return buckets
        return None

    def is_in_vain(
        self, calls: int, found: tuple[int, ...], own: Callable[[], tuple[int, ...]]
    ) -> bool:
        """Return True if calls have computed as much more as compiling costs.

        Parameters
        ----------
        calls
            How many calls have been served.
        found
            The buckets of the program that served them.
        own
            Gives their buckets; for these a program may have to be measured.
        """
        most = self._most()
        if 0 < calls * most < _COMPILATION:
            return False
        entries, needed = self.at(found), self.at(own())
        return entries is None or needed is None or calls * (entries - needed) >= _COMPILATION


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
    def _arrays(self) -> PaddedArrays:
        return PaddedArrays()

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
                found += tuple([_whole(values[position]) for position in self.sizes])
        except (AttributeError, IndexError, TypeError):
            raise NotAcceptedError from None
        return found

    def can_pad(self, values: Sequence[object], lengths: Sequence[int]) -> bool:
        """Return True if the arguments are NumPy arrays, or those of JAX on one device.

        Numbers that no array bounds have to be lengths, and not too large.
        """
        return all(_is_in_one_place(values[position]) for position in self._axes) and (
            not self.unbounded or all(0 <= n < _TOO_LONG for n in self.bounded(lengths))
        )

    def buckets(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The bucket of each group, and of each number that no array bounds."""
        return tuple(map(self.bucket, self.bounded(lengths)))

    def bounded(self, lengths: Sequence[int]) -> Sequence[int]:
        """The lengths that have buckets."""
        first = len(self.groups)
        if not self.unbounded:
            return lengths[:first]
        sizes = dict(zip(self.sizes, lengths[first:], strict=False))
        return (*lengths[:first], *[sizes[position] for position in self.unbounded])

    def entries(self, values: Sequence[Any], buckets: Sequence[int]) -> int:
        """The entries of the arguments that are padded, at the lengths of some buckets."""
        axes = self._axes.items()
        return sum(work_of(_at(values[place].shape, each, buckets)) for place, each in axes)

    def pad(
        self, values: Sequence[Any], lengths: Sequence[int], buckets: Sequence[int], stats: Stats
    ) -> list[object]:
        """The arguments at the buckets' lengths, then the true lengths, and room for numbers."""
        padded, first = list(values), len(self.groups)
        for position, axes in self._axes.items():
            shape = _at(padded[position].shape, axes, buckets)
            padded[position] = self._arrays.padded(position, padded[position], shape, stats)
        padded += [np.array(length) for length in lengths[:first]]
        if self.unbounded:
            padded += [np.broadcast_to(_NOTHING, bucket) for bucket in buckets[first:]]
        return padded


_NOTHING = np.zeros((), "int8")  # only the shape of what it fills is read


class Programs:
    """The programs of buckets, and which of them serves a call.

    The one of a longer bucket serves a shorter one too, but computes more.  So programs are
    compiled for longer buckets than those of a call, where that costs little, and a bucket gets a
    program of its own when others have computed as much for it in vain as compiling costs.  Who
    does not know how many calls will follow pays at most twice as much as who does; it is the rule
    of `runtime.waiting`.
    """

    def __init__(self, padding: Padding) -> None:
        self._padding = padding
        self._compiled: tuple[tuple[int, ...], ...] = ()
        self._served: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()

    def serving(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The buckets whose program serves a call."""
        padding, work = self._padding, self._padding.work
        if work is None:
            return padding.buckets(lengths)
        bounded = padding.bounded(lengths)
        longer = [each for each in self._compiled if all(map(ge, each, bounded))]
        if not longer:
            return self._compile(work.ahead(bounded) or padding.buckets(lengths))
        found, shortest = min(longer, key=prod), tuple(map(_power, bounded))
        if found == shortest:
            return found
        self._served[found, shortest] += 1
        served = self._served[found, shortest]
        if work.is_in_vain(served, found, lambda: padding.buckets(lengths)):
            return self.compiled_for(lengths)
        return found

    def compiled_for(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The buckets of some lengths, for which there is a program from now on."""
        return self._compile(self._padding.buckets(lengths))

    def _compile(self, buckets: tuple[int, ...]) -> tuple[int, ...]:
        self._compiled = tuple(dict.fromkeys((*self._compiled, buckets)))
        return buckets


def _whole(value: SupportsIndex) -> int:
    """A number as Python's; an array of one boolean is none for `operator.index`."""
    return index(bool(value) if getattr(value, "dtype", None) == "bool" else value)


def _at(
    shape: Sequence[int], axes: Sequence[tuple[int, int]], buckets: Sequence[int]
) -> tuple[int, ...]:
    """A shape with the lengths of buckets; ``axes`` says which, each with its bucket's number."""
    changed = {axis: buckets[number] for axis, number in axes}
    return tuple([changed.get(axis, length) for axis, length in enumerate(shape)])


def _is_in_one_place(value: Any) -> bool:
    kind = class_of(value)
    if kind is ARRAY:
        return len(value.sharding.device_set) == 1
    return kind is np.ndarray or kind is jax.ShapeDtypeStruct
