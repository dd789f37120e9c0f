"""Combinations of shapes and static values for which a region is not compiled.

Those beyond its limit run by its policy.  `GoesOnError` signals the others out of JAX's tracing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import jax

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import FAILED_NODE, GoesOnError, RecompileLimitError
from pytensor_jaxlink.frames import running_line, warn_at_user_line
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.runtime.devices import to_numpy
from pytensor_jaxlink.runtime.selectors import Signature, compiled_once_more, limit_reached
from pytensor_jaxlink.runtime.stats import Stats, this_thread

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.specialisation import Computed, Policy


class RegionProgram(Protocol):
    """The program of a region."""

    def __call__(self, static: tuple[object, ...], /, *arguments: object) -> Computed:
        """The results and the conditions by JAX."""
        ...

    def on_host(self, static: tuple[object, ...], /, *arguments: object) -> Computed:
        """The same without JAX."""
        ...


_OF_ARGUMENTS = AssertionError, IndexError, TypeError, ValueError

_MOST_KEPT = 64
"""The combinations of shapes whose errors are kept."""


class LimitReachedError(GoesOnError):
    """They would be compiled once too often."""


class NotTogetherError(GoesOnError):
    """XLA has failed to compile the region for them."""


class OtherRankError(GoesOnError):
    """An argument has another number of dimensions than the program is for."""


class IsLargeError(GoesOnError):
    """There may be too little memory for what the region computes."""


def keep_error(
    errors: dict[Signature, BaseException], signature: Signature, error: Exception
) -> None:
    """Keep the error of an operation that refuses some arguments: JAX need not trace it again."""
    is_of_arguments = isinstance(error, _OF_ARGUMENTS) and hasattr(error, FAILED_NODE)
    if is_of_arguments and len(errors) < _MOST_KEPT:
        error.__cause__ = error.__context__ = None  # they hold on to frames
        errors[signature] = error


class BeyondLimit:
    """The calls of a region beyond its limit, by its policy.

    Parameters
    ----------
    seen
        What the region was compiled for.
    signature
        What the first of these calls is for.

    Raises
    ------
    RecompileLimitError
        Where the policy has no such calls.
    """

    def __init__(
        self,
        plan: Plan,
        region: Region,
        program: RegionProgram,
        policy: Policy,
        stats: Stats,
        seen: Sequence[Signature],
        signature: Signature,
    ) -> None:
        self._plan, self._region, self._program = plan, region, program
        self._policy, self._stats, self._seen = policy, stats, seen
        self._lock = Lock()
        self._kept: OrderedDict[Signature, Callable[..., Computed]] = OrderedDict()
        message = limit_reached(plan, region, seen, signature, policy)
        if policy.beyond == "error":
            raise RecompileLimitError(message)
        self._message = message

    def say(self) -> None:
        """Say what keeps changing."""
        Topic.RECOMPILES.log(lambda: self._message)
        warn_at_user_line(self._message, Code.RECOMPILED)

    def __call__(
        self, signature: Signature, static: tuple[object, ...], arguments: Sequence[object]
    ) -> Computed:
        """The results and the conditions."""
        if self._policy.beyond == "compile":
            return self._kept_for(signature)(static, *arguments)
        self._stats.host_region_calls[self._region.index] += 1
        return run_on_host(self._region, self._program, self._stats, static, arguments)

    def _kept_for(self, signature: Signature) -> Callable[..., Computed]:
        """The compiled function for one combination, kept while it is among the last used."""
        with self._lock:
            found = self._kept.pop(signature, None)
            if found is None:
                self._stats.compilations[self._region.index] += 1
                Topic.RECOMPILES.log(
                    lambda: compiled_once_more(self._plan, self._region, self._seen, signature)
                )
                this_thread.kind = "compilation of region"
                found = self._policy.jit(self._program, static_argnums=0)
            self._kept[signature] = found
            if len(self._kept) > self._policy.limit:
                self._kept.popitem(last=False)
        return found


def run_on_host(
    region: Region,
    program: RegionProgram,
    stats: Stats,
    static: tuple[object, ...],
    arguments: Sequence[object],
) -> Computed:
    """The results and the conditions by PyTensor's own implementation of each operation."""
    this_thread.kind = "on the host: region"
    Topic.FALLBACKS.log(
        lambda: f"region {region.index} runs on the host, called at {running_line()}"
    )
    values = [to_numpy(v, stats) if isinstance(v, jax.Array) else v for v in arguments]
    return program.on_host(static, *values)
