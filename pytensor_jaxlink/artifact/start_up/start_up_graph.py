"""Compiled graphs out of the start-up cache: a plan and code, and the graph where more is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pytensor.graph.fg import FunctionGraph

from pytensor_jaxlink.artifact.start_up.kept import File
from pytensor_jaxlink.errors import NewSizeError
from pytensor_jaxlink.link.options import Options
from pytensor_jaxlink.plan import Plan
from pytensor_jaxlink.runtime import Executor, Policy, Stats

if TYPE_CHECKING:
    from pytensor_jaxlink.link.explanation import Explanation
    from pytensor_jaxlink.link.user_traces import UserTraces
    from pytensor_jaxlink.lowering import Lowered


class StartUpGraph:
    """In the place of a `CompiledGraph`: the same plan, whose regions are code that was kept.

    What only the compiler knows (the explanation, the pure function, what becomes of a call that
    fails) is asked of the original, which is then compiled.
    """

    exported = True

    def __init__(self, file: File, source: FunctionGraph, options: Options, *, status: str) -> None:
        assert file.kept is not None, "it is in the cache"
        self.kept = kept = file.kept
        self.source, self.options, self.copied = source, options, kept.ending.copied
        self.policy = Policy.of(options)
        self.stats = Stats(start_up_cache=status)
        self._original = file.original
        self.changing = self
        self._asked = False  # whether the original has been asked for a size that changed
        file.refuse = self._refuse
        self._own = self.executor = Executor(
            kept.executable,
            self.stats,
            jit=True,
            fallback=partial(self.fall_back, plan=kept.executable.plan),
            policy=self.policy,
            resizing=self,
        )

    def without_callbacks(self) -> StartUpGraph:
        """Itself: a graph with callbacks is not kept."""
        return self

    def _refuse(self, reason: str) -> None:
        self.stats.start_up_cache = f"not kept: {reason}"

    @property
    def plan(self) -> Plan:
        """The plan that is run."""
        return self._own.plan if self.executor is self._own else self._original().plan

    @property
    def explanation(self) -> Explanation:
        """How the function runs, in words."""
        return self._original().explanation

    @property
    def lowered(self) -> Lowered:
        """The plan with the functions of its steps and its constants."""
        return self._original().lowered

    @property
    def trace(self) -> Callable[..., list[object]]:
        """The pure function ``(*inputs, *shared) -> [*outputs, *updates]``."""
        return self._original().trace

    @property
    def for_user(self) -> UserTraces:
        """The graph where the user holds the jit."""
        return self._original().for_user

    def fall_back(
        self, inputs: Sequence[object], error: BaseException | None, *, plan: Plan
    ) -> Sequence[object]:
        """Finish a call as the original does.

        Where a region failed, the original runs the call: it fails too, and either raises what the
        user is to see, or records the failure and takes over.
        """
        original = self._original()
        if error is None:
            self.stats.fallbacks += 1
            return original.fall_back(inputs, None, plan=original.plan)
        return self._taken_over(inputs, counted=1)

    def _taken_over(self, inputs: Sequence[object], *, counted: int) -> Sequence[object]:
        """The outputs of the original, which runs all further calls; some it counts again."""
        original = self._original()
        outputs = original.executor(inputs)
        original.stats.go_on_from(self.stats)
        original.stats.general_calls -= counted
        self.stats, self.executor = original.stats, original.executor
        return outputs

    has_effects = False  # what runs on the host is not kept

    def may_change(self, change: NewSizeError) -> bool:
        """Return True beyond the limit alone: the code for each value of a size is kept."""
        if change.count < self.policy.limit or self.options.dynamic != "auto":
            return False
        return not self._asked or self._original_may(change)

    def _original_may(self, change: NewSizeError) -> bool:
        """Return True if the sizes may turn out to be data in the original."""
        original = self._original()
        change.plan = original.plan
        return original.may_change(change)

    def make_dynamic(self, inputs: Sequence[object], error: NewSizeError) -> bool:
        """Return False: the executor does it, beyond the limit."""
        return False

    def finish(self, inputs: Sequence[object], change: NewSizeError) -> Sequence[object]:
        """Finish a call as the original does once a size is data, if one can be.

        Of several that change together the original makes one data at a time.
        """
        if self.executor is not self._own:  # another thread was faster
            return self.executor(inputs)
        self._asked, original = True, self._original()
        before = original.executor
        while self._original_may(change):
            # It says False where it has a program for all values besides those for one.
            goes_on = original.changing.make_dynamic(inputs, change)
            if original.executor is not before or not goes_on:
                return self._taken_over(inputs, counted=0)
        return self.executor(inputs)
