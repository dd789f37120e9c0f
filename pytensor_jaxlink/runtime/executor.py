"""Runs a plan on values, in the way that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.errors import FAILED_NODE
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime.devices import explicit_mesh, note_explicit_axes, run_in_auto
from pytensor_jaxlink.runtime.forks import (
    all_from_parent,
    refused,
    replace_in_forked_child,
    warn_once,
)
from pytensor_jaxlink.runtime.interpreter import Interpreter
from pytensor_jaxlink.runtime.last_region import LastRegion
from pytensor_jaxlink.runtime.one_region import ConstantsAt, OneRegion
from pytensor_jaxlink.runtime.reuse import Donatable
from pytensor_jaxlink.runtime.runnable import Runnable
from pytensor_jaxlink.runtime.specialisation import Policy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.straight import Boundary, straight
from pytensor_jaxlink.runtime.waiting import all_hold

Rescue = Callable[[Sequence[Any], BaseException | None], Sequence[Any]]


class Executor:
    """A plan with its functions: call it with the values of the inputs.

    Parameters
    ----------
    plan
        What to run.
    functions
        The function of each step: of a region ``(static, *arrays) -> (results, conditions)``, of a
        host step ``(*values) -> results``, of a fetch None; of a loop or branch that is driven from
        the host an object with its ``node`` (for errors) and, for each of its plans, ``parts`` that
        have the ``functions`` and ``constants`` of the plan.
    constants
        The data of the plan's constants.  Those that regions take are moved to the device once.
    jit
        Whether regions are compiled, or run operation by operation.
    rescue
        Called with the inputs, and the exception where there is one, when a region cannot be
        traced or one of its conditions is false; it finishes the call or raises.
    policy
        How often a region is compiled, and what happens beyond that.
    """

    def __init__(
        self,
        plan: Plan,
        functions: Sequence[Any],
        constants: Mapping[int, Any],
        stats: Stats,
        *,
        jit: bool,
        rescue: Rescue | None,
        policy: Policy | None = None,
    ) -> None:
        self.plan, self.stats, self._rescue = plan, stats, rescue
        self.policy = policy = policy or Policy()
        self._ready = Runnable.of(plan, functions, constants, stats, policy, jit=jit)
        self._interpreter, self._one_region = Interpreter(self._ready), OneRegion.of(self._ready)
        self._run = self._interpreter.run if self._one_region is None else self._one_region.run

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the plan.  Returns outputs and updates, as they come: on the device or not."""
        mesh = explicit_mesh(inputs)
        if mesh is not None:
            return run_in_auto(self, inputs, mesh)
        if jax.config.jax_enable_x64 and self.policy.device is None:
            return self._guarded(inputs)
        with jax.enable_x64(True), self.policy.here():
            return self._guarded(inputs)

    def _guarded(self, inputs: Sequence[Any]) -> list[Any]:
        self.stats.general_calls += 1
        try:
            outputs, conditions = self._run(inputs)
        except Exception as error:
            if self._rescue is None or not hasattr(error, FAILED_NODE):
                raise
            return list(self._rescue(inputs, error))
        if conditions and self._rescue is not None and not all_hold(*conditions):
            return list(self._rescue(inputs, None))
        return outputs

    def trace(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the plan on values that may be traced by JAX, in the types that JAX now has."""
        try:
            outputs, _ = self._interpreter.run(inputs, keys=True)
        except Exception as error:
            note_explicit_axes(error, inputs)
            raise
        return outputs

    def compile_for(
        self, signatures: Sequence[Sequence[tuple[Any, Any]]], committed: Iterable[int] = ()
    ) -> None:
        """Compile regions ahead of calls, and keep the code as the policy says.

        Parameters
        ----------
        signatures
            For each region of the plan the static values and arguments, as `Stats.signatures` has
            them.
        committed
            The numbers of inputs that lie on a device and are to stay there.  So do the results of
            code made by `jax.export`, and what goes with such arrays to a region.
        """
        with jax.enable_x64(True), self.policy.here():
            where = jax.device_put(np.zeros(())).sharding
            self._ready.compile_for(signatures, committed, where)

    def direct(
        self, fits: Callable[[int, Any], bool]
    ) -> tuple[Callable[..., Any], ConstantsAt | None] | None:
        """The whole plan as one function that JAX can compile, where it is one region of arrays.

        Returns a function of the inputs and constants, and one that gives these constants on the
        devices of a call (None where there are none).  The first gives the list of outputs; or,
        where there are conditions, a tuple of the list and one boolean.

        Parameters
        ----------
        fits
            Whether an input, as JAX traces it, is what the plan takes at a position.
        """
        if self._one_region is None or not self._ready.jit:
            return None
        return self._one_region.direct(fits)

    # -- in a forked process -------------------------------------------------------------------

    def _call_in_child(self, inputs: Sequence[Any]) -> list[Any]:
        if self._rescue is None:
            raise refused("a function cannot run")
        warn_once()
        return list(self._rescue(all_from_parent(inputs), None))

    def _trace_in_child(self, inputs: Sequence[Any]) -> list[Any]:
        raise refused("a function of JAX cannot run")

    def _compile_in_child(self, *signatures: Any, **options: Any) -> None:
        raise refused("nothing can be compiled")

    # -- other ways to run the plan ------------------------------------------------------------

    def straight(self, boundary: Boundary) -> Callable[..., Any] | None:
        """The plan as one Python function of its inputs; see `runtime.straight`."""
        return straight(self._ready, boundary)

    def donating(self, boundary: Boundary, what: Donatable) -> LastRegion | None:
        """The plan as a function that reuses memory, or None where it has no use for that."""
        return LastRegion.of(self._ready, boundary, what)


replace_in_forked_child(
    Executor,
    __call__=Executor._call_in_child,
    trace=Executor._trace_in_child,
    compile_for=Executor._compile_in_child,
)
