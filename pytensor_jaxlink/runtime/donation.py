"""Buffers that a call may reuse for its results.

What has been donated is gone, so a buffer is donated only where nothing can be lost by it:

- only one that nobody else holds: no other argument, and for the value of a shared variable nobody
  outside at all (the number of references tells);
- only to the last region, after which nothing is run that could fail;
- only if the memory that the region needs is there;
- the region itself gives the old values back where one of its conditions is false;
- the new values are stored before an interrupt (Ctrl-C) is delivered.

Small arrays are not worth the care, and are copied.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import warnings
import weakref
from _thread import interrupt_main
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat, starmap, tee
from operator import itemgetter, setitem
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pytensor_jaxlink.errors import DonatedArgumentError
from pytensor_jaxlink.runtime.devices import ARRAY, constrained_as, sharding_of
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.stats import Stats

WORTH_IT = 1 << 20
"""Bytes of a shared variable from which on donating is cheaper than copying."""

_UNUSABLE = "Some donated buffers were not usable"


def _references(values: Sequence[Any], position: int) -> int:
    return sys.getrefcount(values[position])


_OF_OURS = _references([[object()]][0], 0) + 1
"""References to what a cell and the list of a call's values hold, and nobody else."""


def store(cells: Sequence[list[Any]], values: Sequence[Any]) -> None:
    """Put values into cells, all or none: there is no bytecode between them to interrupt."""
    deque(map(setitem, cells, repeat(0), values), maxlen=0)


@dataclass(frozen=True)
class Donatable:
    """What a function may donate.

    Attributes
    ----------
    names
        Of all arguments.
    updated
        For each argument that is the value of a shared variable which the call updates: the
        position of its new value among the outputs, and the cell of the variable.
    given
        The positions of arguments of the caller's.
    show_unusable
        Whether to show JAX's warning that a donated buffer could not be used.
    stats
        Counts the bytes.
    """

    names: Sequence[str]
    updated: Mapping[int, tuple[int, list[Any]]]
    given: frozenset[int]
    show_unusable: bool
    stats: Stats


class Donation:
    """Calls a function so that the memory of some arguments is reused.

    Parameters
    ----------
    traced
        The function: it gives the list of outputs, or a tuple of that and a condition.
    what
        The arguments that may be donated.
    policy
        How to compile.
    """

    def __init__(self, traced: Callable[..., Any], what: Donatable, policy: Policy) -> None:
        self._traced, self._what, self._policy = traced, what, policy
        ordered = sorted(what.updated.values(), key=itemgetter(0))
        self._cells = [cell for _, cell in ordered]
        # Updates are the last outputs.
        self._pick = itemgetter(slice(ordered[0][0] if ordered else sys.maxsize, None))
        self._compiled: dict[Any, _Compiled | None] = {}

    def choose(self, values: Sequence[Any]) -> tuple[int, ...]:
        """The positions of the values that nobody else holds."""
        chosen = [
            position
            for position in self._what.updated
            if type(values[position]) is ARRAY
            and values[position].nbytes >= WORTH_IT
            and _references(values, position) <= _OF_OURS
        ]
        chosen += [
            position
            for position in self._what.given
            if type(values[position]) is ARRAY and not values[position].is_deleted()
        ]
        if not chosen:
            return ()
        times = Counter(map(id, values))
        return tuple(sorted(p for p in chosen if times[id(values[p])] == 1))

    def run(self, values: Sequence[Any], chosen: tuple[int, ...]) -> tuple[Any, bool] | None:
        """Call the function, donate the ``chosen`` values, and store the new ones.

        Returns the outputs, and whether the conditions hold: where not, the shared variables are as
        they were.  None, and nothing done, where these could not be given back if that must be.
        """
        key = self._key(values, chosen)
        if key not in self._compiled:
            self._compiled[key] = self._compile(values, chosen)
        compiled, what = self._compiled[key], self._what
        if compiled is None:
            return None
        np.empty(compiled.needed, np.uint8)  # MemoryError now, while nothing is lost
        if what.given:
            self._remember(values, chosen)
        what.stats.donated_bytes += sum(values[position].nbytes for position in chosen)
        if compiled.conditional or not compiled.called:
            return self._run_carefully(compiled, values, chosen)
        # From the call to the last cell that is filled there is no bytecode to interrupt.
        calls, again = tee(starmap(compiled.function, (values,)))
        new = chain.from_iterable(map(self._pick, calls))
        deque(map(setitem, self._cells, repeat(0), new), maxlen=0)
        [outputs] = again
        return outputs, True

    def compile_for(self, values: Sequence[Any]) -> None:
        """Compile for values like these, if nobody else will hold those of the states."""
        chosen = tuple(
            sorted(p for p in self._what.updated if getattr(values[p], "nbytes", 0) >= WORTH_IT)
        )
        # What is NumPy's now will have been computed by JAX.
        values = [
            jax.device_put(value) if p in chosen and type(value) is np.ndarray else value
            for p, value in enumerate(values)
        ]
        key = self._key(values, chosen)
        if chosen and key not in self._compiled:
            self._compiled[key] = self._compile(values, chosen)

    def _run_carefully(
        self, compiled: _Compiled, values: Sequence[Any], chosen: tuple[int, ...]
    ) -> tuple[Any, bool]:
        """The same where there is a condition to look at, or JAX has to find its way first."""
        what = "donating", chosen
        kept = contextlib.nullcontext() if compiled.called else self._policy.kept(what, values)
        compiled.called = True
        with _interrupts_wait(), kept:
            return self._run_and_store(compiled.function, values, chosen)

    def _run_and_store(
        self, function: Any, values: Sequence[Any], chosen: tuple[int, ...]
    ) -> tuple[Any, bool]:
        outputs, holds = function(*values), True
        if type(outputs) is tuple:
            outputs, condition = outputs
            holds = bool(np.asarray(condition))
        kept = [
            (cell, outputs[output])
            for position, (output, cell) in self._what.updated.items()
            if holds or position in chosen
        ]
        store([cell for cell, _ in kept], [value for _, value in kept])
        return outputs, holds

    def _key(self, values: Sequence[Any], chosen: tuple[int, ...]) -> tuple[Any, ...]:
        kinds = [
            (np.shape(value), getattr(value, "dtype", type(value)), sharding_of(value))
            for value in values
        ]
        return chosen, tuple(kinds)

    def _compile(self, values: Sequence[Any], chosen: tuple[int, ...]) -> _Compiled | None:
        """The function compiled for these values, of which the chosen are donated."""
        conditional = False
        places = list(map(sharding_of, values))

        def restoring(*arguments: Any) -> Any:
            nonlocal conditional
            outputs = self._traced(*arguments)
            holds = None
            if conditional := type(outputs) is tuple:
                outputs, holds = outputs
            outputs = list(outputs)
            for position, (output, _) in self._what.updated.items():
                old, new = arguments[position], outputs[output]
                if position in chosen:
                    if old.shape != new.shape:
                        raise _CannotDonateError
                    new = new if holds is None else jnp.where(holds, new, old)
                outputs[output] = constrained_as(places[position], old, new)
            return outputs if holds is None else (outputs, holds)

        with warnings.catch_warnings():
            if not self._what.show_unusable:
                warnings.filterwarnings("ignore", message=_UNUSABLE)
            function = self._policy.jit(restoring, donate_argnums=chosen)
            with self._policy.kept(("donating", chosen), values):
                try:
                    lowered = function.lower(*values)
                except _CannotDonateError:
                    return None
                if conditional and not set(chosen) <= set(self._what.updated):
                    return None  # what the caller gave could not be given back
                memory: Any = lowered.compile().memory_analysis()
        needed = 0
        if memory is not None:
            needed = memory.temp_size_in_bytes + memory.output_size_in_bytes
            needed = max(0, needed - memory.alias_size_in_bytes)
        return _Compiled(function, needed, conditional)

    def _remember(self, values: Sequence[Any], donated: Sequence[int]) -> None:
        for position in donated:
            if position not in self._what.given:
                continue
            key, name = id(values[position]), self._what.names[position]
            gone = weakref.ref(values[position], lambda _, key=key: _donated.pop(key, None))
            call = self._what.stats.calls + 1
            _donated[key] = gone, f"to call {call} of a function, as its input {name!r}"


class _CannotDonateError(Exception):
    """A new value has another shape than the old one."""


@dataclass
class _Compiled:
    function: Any
    needed: int
    conditional: bool
    called: bool = False


_donated: dict[int, tuple[Any, str]] = {}


def refuse_donated(names: Sequence[str], values: Sequence[Any]) -> None:
    """Raise where an argument was donated to an earlier call."""
    for name, value in zip(names, values, strict=False):
        if isinstance(value, jax.Array) and value.is_deleted():
            _, where = _donated.get(id(value), (None, "elsewhere"))
            raise DonatedArgumentError(
                f"the array given for input {name!r} no longer exists: it was donated {where}. "
                "Pass a copy to the call that donates it, or compile that function without "
                "donating it: JAXLinker(donate='updates'), In(mutable=False)."
            )


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Deliver a Ctrl-C that comes inside the block when the call has returned."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts are delivered to the main thread alone
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        yield
        return
    came = False

    def wait(*_: Any) -> None:
        nonlocal came
        came = True

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            threading.Thread(target=_interrupt_soon, daemon=True).start()


def _interrupt_soon() -> None:
    time.sleep(0.001)
    interrupt_main()
