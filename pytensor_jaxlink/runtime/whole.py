"""Plans that are one region of arrays: the whole plan is one function that JAX compiles.

A call of it is a call of what `jax.jit` made, with nothing of ours in between.  Arguments that no
node reads are the exception: JAX would compile for each of their shapes, so it does not get them.

To check a condition is to wait for the call.  What lies in a `jax.Array` does not change, so a
condition that holds for some arrays holds for them in the next call too: the group numbers of a
regression are checked once, and later calls return while XLA still computes.

PyMC compiles a model's draws anew at each call, and a notebook builds the same function again when
a cell is run again.  `jax.jit` knows code by the object that it was made of, so XLA would compile
each of these.  Here a region finds, while JAX traces it, the code of the same region of an equal
plan.  Code that two functions have is *closed*: it serves the shapes for which it was compiled.  A
function that meets others goes on with code of its own, and so keeps its own counters, limits and
sizes.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import partial
from threading import Lock
from typing import Any

import jax
from jax.sharding import Sharding

from pytensor_jaxlink.errors import GoesOnError, NotAcceptedError, OtherCodeError
from pytensor_jaxlink.runtime.boundary import Boundary
from pytensor_jaxlink.runtime.clocks import Clock, Function
from pytensor_jaxlink.runtime.devices import place_for
from pytensor_jaxlink.runtime.region_code import Meet, RegionCode
from pytensor_jaxlink.runtime.result import Result
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.specialisation import CompiledRegion, Policy
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of, sources_of_last
from pytensor_jaxlink.runtime.waiting import waited_for


class Whole:
    """Such a plan as a function of its arguments.

    It gives what ``pack`` makes of the outputs; with conditions, a tuple of that and one boolean,
    or a `Result` where the condition has been checked.

    Parameters
    ----------
    ready
        The plan.
    boundary
        How the function takes its arguments.
    pack
        Makes the answer of the list of outputs: while JAX traces, or after they have changed their
        form where some do.
    repeatable
        Whether the same arguments give the same condition; see `Condition`.
    code
        Its code, where that of an equal plan serves too.

    Attributes
    ----------
    call
        The function.
    condition
        Looks at the condition, if there is one.
    """

    def __init__(
        self,
        ready: Runnable,
        boundary: Boundary,
        pack: Callable[[list[object]], object],
        *,
        repeatable: bool,
        code: SharedCode | None = None,
    ) -> None:
        plan, [region], [function] = ready.plan, ready.plan.regions, ready.functions
        self._ready, self._kept = ready, list(boundary.kept.values())
        self._leave, self._pack = [*boundary.leave.items()], pack
        inside = _as_a_list if self._leave else pack
        self._numbers = [n for n in region.arguments if n not in plan.inputs]  # of constants
        self._count = len(plan.inputs)
        self._read = [k for k, n in enumerate(plan.inputs) if n in region.arguments]
        known = {*self._read, *boundary.kept}
        self._boundary, self._unread = boundary, [k for k in range(self._count) if k not in known]
        self._takes = (*(plan.inputs[k] for k in self._read), *self._numbers)
        places = {n: k for k, n in enumerate(self._takes)}
        taken = [places[number] for number in region.arguments]
        given = [region.results.index(number) for number in plan.outputs]

        def traced(*values: object, meet: Meet | None = None) -> Any:
            complete = len(values) == len(places) and ready.policy.has_types()
            if not complete or not all(map(boundary.accepts, self._read, values)):
                raise NotAcceptedError
            results, conditions = function.traced(
                (), *[values[place] for place in taken], meet=meet
            )
            outputs = inside([results[place] for place in given])
            return (outputs, *conditions) if conditions else outputs

        jit: Function = ready.policy.jit
        if code is not None:
            jit = partial(code.jit, jit, lambda: repr(inside([*range(len(given))])))
        self.condition = Condition(traced, ready.policy, jit, repeatable=repeatable)
        if self._numbers:
            with jax.enable_x64(True), ready.policy.here():
                self._here = self.constants_at(None)
        self._run(self.condition.compiled)

    def _run(self, compiled: Function) -> None:
        """Have calls run a compiled function."""
        self._compiled = compiled
        others = self._numbers or self._kept or len(self._read) < self._count
        self._given: Function = self._with_others if others else compiled
        self.call: Function = self._left if self._leave else self._given

    def timed(self, clock: Clock) -> Function:
        """The call with clocks; nothing is compiled again."""
        timed, plan, [region] = copy(self), self._ready.plan, self._ready.plan.regions
        timed._leave = [
            (k, clock.crossing(plan.names[plan.outputs[k]], leave)) for k, leave in self._leave
        ]
        timed._run(clock.region(region, self._compiled, self._takes))
        return timed.call

    def _with_others(self, *args: object) -> object:
        """The call where cells are read, constants follow the arguments, or some are not read."""
        values = [*args, *[kept() for kept in self._kept]]
        if len(self._read) < self._count:
            self._check_unread(values)
            values = self._only_read(values)
        others = self._constants_for(values) if self._numbers else ()
        found = self._compiled(*values, *others)
        kind = class_of(found)
        return self.condition.result(found, values, others) if kind is tuple else found

    def _check_unread(self, values: Sequence[object]) -> None:
        """Raise `NotAcceptedError` for an argument of another type that no node reads."""
        if len(values) != self._count or any(
            self._boundary.convert(position, values[position]) is None for position in self._unread
        ):
            raise NotAcceptedError

    def _only_read(self, values: Sequence[object]) -> list[object]:
        return [values[position] for position in self._read]

    def _left(self, *args: object) -> object:
        """The call where outputs change their form."""
        found: Any = self._given(*args)
        kind = class_of(found)
        if kind is tuple:
            found = self.condition.result(found, args)
            kind = Result
        if kind is Result:
            if found.conditions:  # nobody wants the outputs
                return found
            found = found.outputs
        for position, leave in self._leave:  # of a list that JAX has made for this call
            found[position] = leave(found[position])
        return self._pack(found)

    def compile(self, values: list[object]) -> None:
        """Compile for values of all inputs."""
        values = self._only_read(values)
        others = self.constants_at(place_for(values)) if self._numbers else ()
        self.condition.compiled.lower(*values, *others).compile()

    def constants_at(self, place: Sharding | None) -> tuple[Any, ...]:
        """The constants on the devices of a call."""
        return tuple(self._ready.constants.at(number, place) for number in self._numbers)

    def _constants_for(self, values: Sequence[Any]) -> tuple[Any, ...]:
        home = self._here[0].sharding
        for value in values:
            if type(value) is ARRAY and value.sharding is not home:
                return self.constants_at(place_for(values))
        return self._here


def _as_a_list(outputs: list[object]) -> object:
    return outputs


# -- conditions that need not be checked again ---------------------------------------------------


class Condition:
    """The condition of a compiled function, and the arrays for which it was found to hold.

    Parameters
    ----------
    function
        The function; where it gives a tuple, the second entry is its condition.
    policy
        In which types and where it is traced.
    jit
        Compiles it, where that is not ``policy.jit``.
    repeatable
        Whether the same arguments give the same condition: what runs on the host may fail once.

    Attributes
    ----------
    compiled
        What `jax.jit` makes of the function.
    """

    def __init__(
        self,
        function: Callable[..., object],
        policy: Policy,
        jit: Callable[[Function], Function] | None = None,
        *,
        repeatable: bool,
    ) -> None:
        def traced(*values: object, **meet: object) -> Any:
            self._traces += 1
            return function(*values, **meet)

        self._traces = 0
        self.compiled: Any = (jit or policy.jit)(traced)
        self._policy, self._repeatable = policy, repeatable
        # For each combination of shapes the arguments that the condition depends on.
        self._decisive: dict[object, tuple[int, ...]] = {}
        # One that was not a `jax.Array`: while it is none nothing can be recorded.
        self._new: int | None = None
        # One object, because several threads may call the function.
        self._known: tuple[object, tuple[tuple[int, Any], ...]] | None = None

    def result(
        self, found: tuple[object, object], values: Sequence[object], others: Sequence[object] = ()
    ) -> Result:
        """The result of a call, with the condition only where it is false.

        Parameters
        ----------
        found
            What the function gave: outputs and a condition.
        values
            The arguments of that call.
        others
            Those that followed, and are the same in all calls.
        """
        outputs, condition = found
        return Result(outputs, () if self.holds(condition, values, others) else (False,))

    def holds(
        self, condition: object, values: Sequence[object], others: Sequence[object] = ()
    ) -> bool:
        """Return True if the condition of a call is true, which its arguments may tell already."""
        known = self._known
        if known is not None:
            for position, array in known[1]:
                if array() is not values[position]:
                    break
            else:
                # Looking at shapes takes longer than anything else here.
                # What was taken over is not traced here, and serves one combination of them.
                if self._traces <= 1 or known[0] == _shapes(values):
                    return True
        found = bool(waited_for(condition))
        new = self._new
        if found and self._repeatable and (new is None or type(values[new]) is ARRAY):
            self._known = self._decisive_arguments(values, others)
        return found

    def _decisive_arguments(self, values: Sequence[object], others: Sequence[object]) -> Any:
        shapes = _shapes(values)
        if shapes not in self._decisive:
            try:
                with self._policy.types(), self._policy.here():  # JAX finds what it has traced
                    jaxpr = self.compiled.trace(*values, *others).jaxpr.jaxpr
            except NotAcceptedError:  # JAX has forgotten it, and another function's code is closed
                return None
            count = len(values)
            self._decisive[shapes] = tuple(k for k in sources_of_last(jaxpr) if k < count)
        decisive = self._decisive[shapes]
        for position in decisive:
            if type(values[position]) is not ARRAY:
                self._new = position
                return None
        return shapes, tuple((position, weakref.ref(values[position])) for position in decisive)


def _shapes(values: Sequence[object]) -> tuple[object, ...]:
    return tuple([getattr(value, "shape", ()) for value in values])


# -- code that equal plans have in common ---------------------------------------------------------

_MOST = 32
"""Codes that are kept when their functions are gone: those that were used last."""


_lock = Lock()
_kept: OrderedDict[Hashable, RegionCode] = OrderedDict()


class SharedCode:
    """The code of a region, its own or that of the same region of an equal plan.

    ``identity`` gives what equal plans have in common; None where nobody could tell that they are.
    """

    def __init__(self, identity: Callable[[], Hashable | None], region: int) -> None:
        self._identity, self._region = identity, region
        self._code: RegionCode | None = None
        self._shares = True
        self._source: tuple[Function, Callable[[], Hashable]] | None = None

    def jit(
        self,
        jit: Callable[[Function], Function],
        form: Callable[[], Hashable],
        traced: Function,
    ) -> Function:
        """The compiled form of a function, or that which was taken over.

        Parameters
        ----------
        jit
            Makes it.
        form
            Gives what tells functions apart that are made of equal regions.
        traced
            The function.  It is called with ``meet``, which it calls when it has counted, and
            which gives the `RegionCode` that it becomes, or raises `OtherCodeError`.
        """
        if self._code is not None:
            return self._code.compiled
        if not self._shares:
            return jit(partial(traced, meet=None))
        # Code that outlives its function does not hold on to the graph.
        self._source = traced, form
        code, owner = RegionCode(), weakref.ref(self)

        def entered(*values: object) -> object:
            own = owner()
            if own is None or code.closed:
                raise OtherCodeError(None, None)
            return own.run(code, values)

        code.compiled = jit(entered)
        return code.compiled

    def run(self, code: RegionCode, values: tuple[object, ...]) -> object:
        """Run the function while JAX traces it for ``code``."""
        assert self._source is not None, "`jit` has been given it"
        traced, form = self._source[0], self._source[1]()
        shapes = _shapes(values)
        try:
            return traced(*values, meet=lambda: self._meet(code, form, shapes))
        except (Exception, GoesOnError):  # there will be no such code
            _withdraw(code)
            raise

    def _meet(self, code: RegionCode, form: Hashable, shapes: tuple[object, ...]) -> RegionCode:
        """Find the code of an equal function, or offer this one to others."""
        code.shapes.add(shapes)
        if len(code.shapes) > 1:  # nobody could count for which of them it was compiled
            _withdraw(code)
            return code
        identity = self._identity()
        if identity is None:
            self._shares = False
            return code
        key = identity, self._region, form, shapes
        with _lock:
            found = _kept.setdefault(key, code)
            _kept.move_to_end(key)
            if len(_kept) > _MOST:
                _kept.popitem(last=False)
        if found is code:
            return code
        found.closed = True
        raise OtherCodeError(found, self)

    def follow(self, error: OtherCodeError, region: CompiledRegion) -> None:
        """Have `jit` give the code that an error names, or code of the region's own."""
        assert error.code is None or isinstance(error.code, RegionCode)
        self._code, self._shares = error.code, False
        if error.code is None:
            region.compile_again()


def _withdraw(code: RegionCode) -> None:
    """Offer a code to no others."""
    with _lock:
        for key in [key for key, kept in _kept.items() if kept is code]:
            del _kept[key]
