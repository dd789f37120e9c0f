"""The functions that the source of a plan calls for its regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pytensor_jaxlink.errors import GoesOnError, NotAcceptedError, OtherCodeError
from pytensor_jaxlink.plan import Region
from pytensor_jaxlink.runtime.boundary import Boundary
from pytensor_jaxlink.runtime.clocks import Function
from pytensor_jaxlink.runtime.devices import detached
from pytensor_jaxlink.runtime.keys import as_key
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.specialisation import CompiledRegion, Computed
from pytensor_jaxlink.sparse_values import SparseValue, from_scipy

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.donation import Donation
    from pytensor_jaxlink.runtime.region_code import Meet
    from pytensor_jaxlink.runtime.whole import SharedCode


def accepting(
    ready: Runnable, region: Region, function: CompiledRegion, boundary: Boundary
) -> Callable[..., Computed]:
    """A region, to be traced; the inputs among its arguments are checked only then."""
    check = checking(ready, region, boundary)

    def traced(
        static: tuple[object, ...], *arguments: object, meet: Meet | None = None
    ) -> Computed:
        if not ready.policy.has_types():
            raise NotAcceptedError
        check(arguments)
        return function.traced(static, *arguments, meet=meet)

    return traced


Check = Callable[[Sequence[object]], None]


def checking(ready: Runnable, region: Region, boundary: Boundary) -> Check:
    """Raises `NotAcceptedError` where an input among the arguments is not what the plan takes."""
    generators = ready.plan.generators
    inputs = {n: k for k, n in enumerate(ready.plan.inputs) if n not in generators}
    pairs = [(k, inputs[n]) for k, n in enumerate(region.arguments) if n in inputs]

    def check(arguments: Sequence[object]) -> None:
        if not all(boundary.accepts(position, arguments[k]) for k, position in pairs):
            raise NotAcceptedError

    return check


def checked_region(ready: Runnable, region: Region, function: Function) -> Function:
    """A region that counts."""
    stats, index = ready.stats, region.index
    prepare, first = _preparing(ready, region), 1 if region.static else 0

    def call(*given: object) -> object:
        static, arguments = (given[0] if first else ()), list(given[first:])
        if prepare is not None:
            prepare(arguments)
        stats.general_region_calls[index] += 1
        for argument in arguments:
            if type(argument) is np.ndarray:
                stats.bytes_to_device += argument.nbytes
        return function(static, *arguments)

    return call


def fast_region(
    ready: Runnable,
    region: Region,
    function: CompiledRegion,
    *,
    boundary: Boundary,
    jitted: dict[int, Any],
    codes: Mapping[int, SharedCode],
) -> Callable[..., object]:
    """A region as `jax.jit` made it, which is also noted by its number."""
    traced, code = accepting(ready, region, function, boundary), codes.get(region.index)
    prepare, first = _preparing(ready, region), 1 if region.static else 0
    if code is None:
        compiled = jitted[region.index] = function.jitted(traced)
    else:
        compiled = _sharing(ready, region, function, traced, code, jitted)
    if region is not ready.plan.steps[0]:
        compiled = _going_on(function, compiled, first, checking(ready, region, boundary))
    if prepare is None:
        return compiled

    def call(*given: object) -> object:
        arguments = list(given[first:])
        prepare(arguments)
        return compiled(*given[:first], *arguments)

    return call


def _going_on(function: CompiledRegion, compiled: Function, first: int, check: Check) -> Function:
    """A region that runs in another way where it has no code: the steps before it have run.

    Cost: a call in Python.
    """

    def call(*given: object) -> object:
        static = cast("tuple[object, ...]", given[0]) if first else ()
        arguments = given[first:]
        if function.is_beyond(static, arguments):
            check(arguments)  # nobody traces them
        else:
            try:
                return compiled(*given)
            except GoesOnError:
                pass
        return function(static, *arguments)

    return call


class DonatingOrNot:
    """A region that reuses memory, after other steps: where it has no code, nothing is donated."""

    def __init__(
        self, donation: Donation, function: CompiledRegion, taken: int, check: Check
    ) -> None:
        self._donation, self._function, self._taken = donation, function, taken
        self._check = check
        self.compile = donation.compile

    def __call__(
        self, static: tuple[object, ...], values: list[object], others: Sequence[object]
    ) -> tuple[Sequence[object], Sequence[object], bool]:
        """Call it; see `Donation`."""
        if self._function.is_beyond(static, values[: self._taken]):
            self._check(values)
        else:
            try:
                return self._donation(static, values, others)
            except GoesOnError:
                pass
        return *self._function(static, *values[: self._taken]), False


def _sharing(
    ready: Runnable,
    region: Region,
    function: CompiledRegion,
    traced: Function,
    code: SharedCode,
    jitted: dict[int, Any],
) -> Function:
    """A region that runs the code of an equal one from its first call on.

    Steps before it have run, so the call goes on from here.
    """

    def compiled() -> Function:
        return code.jit(ready.policy.jit, lambda: "region", partial(traced, ()))

    jitted[region.index] = compiled()

    def call(*arguments: object) -> object:
        while True:
            try:
                return jitted[region.index](*arguments)
            except OtherCodeError as other:
                code.follow(other, function)
                jitted[region.index] = compiled()

    return call


def compiling_region(
    ready: Runnable, region: Region, jitted: Mapping[int, Any]
) -> Callable[..., object]:
    """A region that is compiled for its arguments, and gives the kinds of its results."""
    prepare, first = _preparing(ready, region), 1 if region.static else 0

    def ahead(*given: object) -> object:
        arguments = list(given[first:])
        if prepare is not None:
            prepare(arguments)
        lowered = jitted[region.index].lower(*given[:first], *arguments)
        lowered.compile()
        return lowered.out_info

    return ahead


def _as_matrix(value: object) -> object:
    """A matrix of SciPy as a region takes it; all else is returned as it is."""
    found = from_scipy(value)
    if found is value or not isinstance(found, SparseValue):
        return found
    data, indices, starts = map(detached, (found.data, found.indices, found.indptr))
    return SparseValue(data, indices, starts, found.shape, found.format)


def _preparing(ready: Runnable, region: Region) -> Callable[[list[object]], None] | None:
    """A function that changes arguments to the forms that a region takes; None if all have them.

    Generators become keys, matrices their arrays, and constants go to where the others are.
    """
    plan, numbers = ready.plan, region.arguments
    forms = [
        (k, as_key if n in plan.generators else _as_matrix)
        for k, n in enumerate(numbers)
        if n in plan.generators or n in plan.sparse
    ]
    place = ready.constants.placing(numbers)
    if not forms:
        return place

    def prepare(arguments: list[object]) -> None:
        for position, form in forms:
            arguments[position] = form(arguments[position])
        if place is not None:
            place(arguments)

    return prepare
