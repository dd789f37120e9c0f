"""Buffers that a call may reuse for its results.

What has been donated is gone, so a buffer is donated only where nothing can be lost by it:

- only one that nobody else holds: no other argument, no output, and for the value of a shared
  variable nobody outside at all (the number of references tells; of memory that NumPy looks at,
  which it does not tell, JAX itself makes a copy);
- only to the last region, after which nothing is run that could fail, and when the conditions of
  the steps before it have been found to hold;
- only if the memory that the region needs is there;
- the region itself gives the old values back where its own condition is false;
- the new values are stored before an interrupt (Ctrl-C) is delivered.

Small arrays are not worth the care, and are copied.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat, starmap
from operator import setitem
from sys import getrefcount
from typing import Any

import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.runtime.devices import constrained_as, ready_as, sharding_of, traced_update
from pytensor_jaxlink.runtime.donated import remember_donated
from pytensor_jaxlink.runtime.interrupts import interrupts_wait, store
from pytensor_jaxlink.runtime.reuse import Reuse
from pytensor_jaxlink.runtime.specialisation import Computed, Policy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, Tracer, class_of, device_put
from pytensor_jaxlink.runtime.waiting import all_hold

WORTH_IT = 1 << 20
"""Bytes of a shared variable from which on donating is cheaper than copying."""

WORTH_A_REGION = 1 << 22
"""Bytes from which on a region of its own, in which it is donated, is cheaper than copying."""

_UNUSABLE = "Some donated buffers were not usable"


_held = [object()]
_OF_OURS = getrefcount(_held[0]) + 1
"""References to what a cell and the list of a region's arguments hold, and nobody else."""


class Donation:
    """The last region of a plan as a function that reuses the memory of some of its arguments.

    Parameters
    ----------
    traced
        The region, of its static values and arguments: it gives results and conditions.
    compiled
        The same as `jax.jit` made it, for calls in which nothing can be donated.
    what
        The memory that it may reuse.
    place
        Moves constants among the arguments to where the others are, if there are any.
    policy
        How to compile.
    stats
        Counts the bytes.
    """

    def __init__(
        self,
        traced: Callable[..., Computed],
        compiled: Any,
        what: Reuse,
        place: Callable[[list[object]], None] | None,
        policy: Policy,
        stats: Stats,
    ) -> None:
        self._traced, self._what, self._policy, self._stats = traced, what, policy, stats
        self._without, self._place = compiled, place
        self._states, self._given = list(what.states), list(what.given)
        self._cells = [cell for _, cell in what.states.values()]
        self._others = [cell for _, cell in what.others]
        self._all_cells = [*self._cells, *self._others]
        self._compiled: dict[object, _Compiled | None] = {}
        self._last: tuple[object, _Compiled | None] = None, None  # of the last call
        # The types of states that are too small to be donated: JAX has one for all results of a
        # program, and to look at it is the least that a call can do.
        self._small: tuple[tuple[int, object], ...] = ()

    def __call__(  # noqa: C901 -- one frame a call
        self, static: tuple[object, ...], values: list[object], others: Sequence[object]
    ) -> tuple[Sequence[object], Sequence[object], bool]:
        """Call the region, donate what nobody else holds, store the new states and the ``others``.

        Returns the results, the conditions, and whether the states are stored.  Where nothing can
        be donated they are not, and nobody has waited for the conditions.  Where a condition is
        false, the shared variables are as they were.

        A large state has thrown all else out of the processor's caches, and then what Python does
        takes ten times its time: so all of a call like the last one is in this one function.
        """
        if self._place is not None:
            self._place(values)
        for position, aval in self._small:
            if getattr(values[position], "aval", None) is not aval:
                break
        else:
            if self._small:
                results, conditions = self._without(*self._taken(static, values))
                return results, conditions, False
        kept: Sequence[object] = ()
        if others:
            kept = [cell[0] for cell in self._others]
            others = ready_as(kept, others)
        free = [p for p in self._states if getrefcount(values[p]) <= _OF_OURS]
        if self._given:
            free += [p for p in self._given if _is_given_once(values, values[p])]
        kinds = _kinds(values)
        key = static, free, kinds
        last, compiled = self._last
        if key != last:
            compiled = self._find(static, values, free, kinds)
            self._last = key, compiled
        if compiled is None:
            self._small = self._too_small(values)
            results, conditions = self._without(*self._taken(static, values))
            return results, conditions, False
        if compiled.needed:
            np.empty(compiled.needed, np.uint8)  # MemoryError now, while nothing is lost
        if compiled.careful:
            return self._run_carefully(compiled, values, others)
        # From the call to the last cell that is filled there is no bytecode to interrupt.
        results = chain.from_iterable(starmap(compiled.function, (values,)))
        new = chain(islice(results, len(self._cells)), others) if others else results
        deque(map(setitem, self._all_cells, repeat(0), new), maxlen=0)
        if self._cells and issubclass(class_of(self._cells[0][0]), Tracer):
            store(self._all_cells, [*map(values.__getitem__, self._states), *kept])
            raise traced_update()
        self._stats.donated_bytes += compiled.bytes
        found = [cell[0] for cell in self._cells]
        found += results
        return [found[place] for place in compiled.order], (), bool(self._all_cells)

    def compile(
        self, static: tuple[object, ...], values: list[object], others: Sequence[object]
    ) -> tuple[Sequence[object], Sequence[object], bool]:
        """Compile for values like these, in the place of a call; gives the kinds of the results.

        Twice: for calls in which nothing can be donated, and for those in which nobody else will
        hold the values of the states.
        """
        if self._place is not None:
            self._place(values)
        lowered = self._without.lower(*self._taken(static, values))
        lowered.compile()
        # What is NumPy's now will have been computed by JAX.
        values = [
            device_put(value) if p in self._what.states and type(value) is np.ndarray else value
            for p, value in enumerate(values)
        ]
        self._find(static, values, self._states, _kinds(values))
        results, conditions = lowered.out_info
        return results, conditions, False

    def _taken(self, static: tuple[object, ...], values: Sequence[object]) -> Sequence[object]:
        """The arguments of the region, without the values of states that it does not look at."""
        taken = values[: self._what.taken]
        return [static, *taken] if static else taken

    def _run_carefully(
        self, compiled: _Compiled, values: Sequence[object], others: Sequence[object]
    ) -> tuple[Sequence[object], Sequence[object], bool]:
        """The same where there is something to look at, or JAX has to find its way first."""
        for position in compiled.given:
            name = self._what.given[position]
            remember_donated(name, values[position], self._stats.calls + 1)
        self._stats.donated_bytes += compiled.bytes
        with interrupts_wait():
            found = compiled.function(*values)
            if any(issubclass(class_of(value), Tracer) for value in found):
                raise traced_update()
            all_right = not compiled.conditional or all_hold(found.pop())
            if all_right:
                store(self._all_cells, [*found[: len(self._cells)], *others])
            else:
                back = [place for place, p in enumerate(self._states) if p in compiled.donated]
                store([self._cells[place] for place in back], [found[place] for place in back])
        compiled.careful = bool(compiled.conditional or compiled.given)
        results = [found[place] for place in compiled.order]
        return results, () if all_right else (False,), all_right and bool(self._all_cells)

    def _find(
        self,
        static: tuple[object, ...],
        values: Sequence[object],
        free: list[int],
        kinds: list[object],
    ) -> _Compiled | None:
        """The region compiled for values like these, of which those that are free may be donated.

        None where none is, or is worth it, and where JAX traces the call: `jax.vmap` would run the
        region at once.
        """
        key = static, tuple(free), tuple(kinds)
        if key not in self._compiled:
            traced = any(issubclass(class_of(value), Tracer) for value in values)
            chosen = [p for p in free if not traced and self._worth_it(p, values[p])]
            self._compiled[key] = self._compile(static, values, chosen) if chosen else None
        return self._compiled[key]

    def _too_small(self, values: Sequence[Any]) -> tuple[tuple[int, object], ...]:
        """The types of the states, if none of their size is ever donated; nothing otherwise."""
        if self._given or any(
            type(values[p]) is not ARRAY or self._worth_it(p, values[p]) for p in self._states
        ):
            return ()
        return tuple((p, values[p].aval) for p in self._states)

    def _worth_it(self, position: int, value: Any) -> bool:
        large = position in self._what.given or value.nbytes >= WORTH_IT
        return type(value) is ARRAY and large

    def _compile(
        self, static: tuple[object, ...], values: Sequence[Any], chosen: Sequence[int]
    ) -> _Compiled | None:
        """The region compiled for these values, of which the chosen are donated."""
        order: list[int] = []
        conditional = False
        places = list(map(sharding_of, values))

        def restoring(*arguments: Any) -> list[object]:
            """The new values of the states come first: they are stored one after another."""
            nonlocal conditional, order
            results, conditions = self._traced(static, *arguments[: self._what.taken])
            conditional = bool(conditions)
            new: list[object] = []
            for position, (result, _) in self._what.states.items():
                old, value = arguments[position], results[result]
                if position in chosen:
                    if old.shape != value.shape:
                        raise _CannotDonateError
                    value = jnp.where(conditions[0], value, old) if conditions else value
                new.append(constrained_as(places[position], old, value))
            first = [result for result, _ in self._what.states.values()]
            rest = [place for place in range(len(results)) if place not in first]
            order = [[*first, *rest].index(place) for place in range(len(results))]
            return [*new, *[results[place] for place in rest], *conditions]

        with warnings.catch_warnings():
            if not self._what.show_unusable:
                warnings.filterwarnings("ignore", message=_UNUSABLE)
            function = self._policy.jit(restoring, donate_argnums=tuple(chosen))
            try:
                lowered = function.lower(*values)
            except _CannotDonateError:
                return None
            if conditional and not set(chosen) <= set(self._states):
                # What the caller gave could not be given back.
                fewer = [position for position in chosen if position in self._states]
                return self._compile(static, values, fewer) if fewer else None
            memory = lowered.compile().memory_analysis()
        needed = 0
        if memory is not None:
            needed = memory.temp_size_in_bytes + memory.output_size_in_bytes
            needed = max(0, needed - memory.alias_size_in_bytes)
        return _Compiled(
            function,
            order,
            donated=frozenset(chosen),
            given=[position for position in chosen if position in self._given],
            bytes=sum(values[position].nbytes for position in chosen),
            needed=needed,
            conditional=conditional,
        )


class _CannotDonateError(Exception):
    """A new value has another shape than the old one."""


@dataclass
class _Compiled:
    """A region that donates, for one kind of values."""

    function: Any
    order: list[int]  # where its results are in what the function gives
    donated: frozenset[int]
    given: list[int]  # those of them that are the caller's
    bytes: int
    needed: int  # bytes, beyond those that are reused
    conditional: bool
    careful: bool = True  # whether there is more to do than to call it


def _kinds(values: Sequence[Any]) -> list[object]:
    """The classes, shapes and types that a region is compiled for."""
    return [
        (value.aval, value.sharding)
        if type(value) is ARRAY
        else (class_of(value), getattr(value, "shape", None), getattr(value, "dtype", None))
        for value in values
    ]


def _is_given_once(values: Sequence[object], value: Any) -> bool:
    once = sum(value is other for other in values) == 1
    return once and type(value) is ARRAY and not value.is_deleted()
