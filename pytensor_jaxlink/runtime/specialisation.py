"""How often a region is compiled, and what happens beyond that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from pytensor_jaxlink.errors import (
    FAILED_NODE,
    GoesOnError,
    NewSizeError,
    OtherCodeError,
)
from pytensor_jaxlink.frames import running_line
from pytensor_jaxlink.logs import Topic
from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.runtime.beyond import (
    BeyondLimit,
    IsLargeError,
    LimitReachedError,
    NotTogetherError,
    OtherRankError,
    keep_error,
    run_on_host,
)
from pytensor_jaxlink.runtime.devices import named_device
from pytensor_jaxlink.runtime.memory import NotEnoughMemoryError, may_not_fit, missing
from pytensor_jaxlink.runtime.resizing import Resizing
from pytensor_jaxlink.runtime.selectors import compiled_once_more
from pytensor_jaxlink.runtime.stats import Stats, this_thread
from pytensor_jaxlink.runtime.typed_jax import (
    FailureOfXLA,
    configuration,
    device_put_now,
    eval_shape,
    is_out_of_memory,
    jit,
    process_count,
)
from pytensor_jaxlink.sparse_values import SparseValue

if TYPE_CHECKING:
    from pytensor_jaxlink.runtime.region_code import Meet, RegionCode

Computed = tuple[Sequence[Any], Sequence[Any]]
"""The results of a region, and its conditions."""


@dataclass(frozen=True)
class Policy:
    """For how many combinations of shapes and static values a region is compiled.

    Attributes
    ----------
    limit
        The number.
    beyond
        What becomes of further ones: they run on the host, are compiled and kept while they are
        among the last used, or raise `RecompileLimitError`.
    compiler_options
        What XLA is asked for.
    device
        Where what is not committed to a device runs; None leaves it to JAX.
    x64
        Whether calls turn JAX's 64-bit types on.  Code that has none runs as JAX is configured.
    dynamic
        Whether lengths are data before a second one has come.
    """

    limit: int = 8
    beyond: Literal["host", "compile", "error"] = "host"
    compiler_options: Mapping[str, object] | None = None
    device: Any = None
    x64: bool = True
    dynamic: bool = False

    @classmethod
    def of(cls, options: Any) -> Policy:
        """The policy that the options of `JAXLinker` ask for."""
        limit, beyond = options.recompile_limit, options.on_recompile_limit
        device = None if options.device is None else named_device(options.device)
        dynamic = options.dynamic is True
        return cls(limit, beyond, options.compiler_options, device=device, dynamic=dynamic)

    def here(self) -> AbstractContextManager[object]:
        """Makes the device JAX's default, in this thread."""
        return nullcontext() if self.device is None else jax.default_device(self.device)

    def types(self) -> AbstractContextManager[object]:
        """Has JAX know the types of the code, in this thread."""
        return jax.enable_x64(True) if self.x64 else nullcontext()

    def has_types(self) -> bool:
        """Return True if JAX knows them already."""
        return not self.x64 or configuration.jax_enable_x64

    def move(self, value: np.ndarray) -> object:
        """An array on the device; as it is where several processes share their devices."""
        if process_count() > 1:
            return value
        with self.types(), self.here():
            return device_put_now(value)

    def jit(self, function: Callable[..., object], **options: object) -> Any:
        """`jax.jit` with the options for XLA."""
        if self.compiler_options:
            options["compiler_options"] = dict(self.compiler_options)
        return jit(function, **options)


_LARGE = 1 << 26
"""Entries; fewer fit everywhere."""


class CompiledRegion:
    """A region, compiled when it meets a new combination of shapes and static values.

    JAX keeps what it has compiled; that it would compile again shows when it traces, so the limit
    costs nothing while it is not reached.

    Attributes
    ----------
    entries
        How many the largest of its programs computes.
    """

    def __init__(
        self,
        plan: Plan,
        region: Region,
        program: Any,
        policy: Policy,
        stats: Stats,
        resizing: Resizing | None = None,
    ) -> None:
        self._plan, self._region, self._program = plan, region, program
        self._policy, self._stats, self._resizing = policy, stats, resizing
        self._seen: dict[tuple[object, ...], None] = {}  # in order
        self._counted: dict[tuple[object, ...], str] = {}  # for which it is compiled again, and why
        self._missing: dict[tuple[object, ...], str | None] = {}  # the memory, of large ones
        self._refused: dict[tuple[object, ...], BaseException] = {}  # for which it cannot be made
        self.entries = 0
        self._lock = Lock()
        self._limited: BeyondLimit | None = None  # from the first call beyond the limit on
        self._jitted_itself = jitted = self.jitted(self.traced)

        def without_static(_: tuple[object, ...], *arguments: object) -> Any:
            return jitted(*arguments)

        # JAX takes longer for a call with a static argument, even an empty one.
        self._jitted: Callable[..., Any] = jitted if region.static else without_static

    def __call__(self, static: tuple[object, ...], *arguments: object) -> Computed:
        """The results of the region, and its conditions."""
        if self.is_beyond(static, arguments):
            return self._beyond(static, arguments)
        if self._missing and self._missing.get(_signature(static, arguments)) is not None:
            return self._large(static, arguments)  # JAX would find what was compiled
        try:
            return self._jitted(static, *arguments)
        except GoesOnError as reason:
            return self._otherwise(reason, static, arguments)
        except (NotImplementedError, TypeError) as error:
            # JAX can trace an operation that it has no code for, for these types or here.
            if not hasattr(error, FAILED_NODE):
                self._program(static, *arguments)  # one by one, so that the error names the node
            raise
        except FailureOfXLA as error:
            if hasattr(error, FAILED_NODE) or not self._is_not_compiled(static, arguments):
                raise
            # An error of one operation names its node.
            found = self._one_by_one(static, arguments, error)
            self._refused[_signature(static, arguments)] = NotTogetherError()
            return found

    def _otherwise(
        self, reason: GoesOnError, static: tuple[object, ...], arguments: Sequence[object]
    ) -> Computed:
        """The same in the way that a signal asks for."""
        if isinstance(reason, IsLargeError):
            return self._large(static, arguments)
        if isinstance(reason, NotTogetherError):
            return self._one_by_one(static, arguments)
        if isinstance(reason, OtherRankError):
            self._stats.fallbacks += 1
            return run_on_host(self._region, self._program, self._stats, static, arguments)
        return self._beyond(static, arguments)

    def _beyond(self, static: tuple[object, ...], arguments: Sequence[object]) -> Computed:
        """The same beyond the limit."""
        signature = _signature(static, arguments)
        limited = self._limited
        if limited is None:
            parts = self._plan, self._region, self._program, self._policy, self._stats
            self._limited = limited = BeyondLimit(*parts, [*self._seen], signature)
            limited.say()
        return limited(signature, static, arguments)

    def _large(self, static: tuple[object, ...], arguments: Sequence[object]) -> Computed:
        """The results where there is enough memory for them; else `NotEnoughMemoryError`."""
        signature = _signature(static, arguments)
        with self._lock:
            if signature not in self._missing:
                self._missing[signature] = None  # so that JAX may trace it
                account = self._compiled(static, arguments).memory_analysis()
                self._missing[signature] = missing(account, arguments)
        if (text := self._missing[signature]) is not None:
            raise NotEnoughMemoryError(text)
        return self._jitted(static, *arguments)

    def _compiled(self, static: tuple[object, ...], arguments: Sequence[object]) -> Any:
        """The region compiled for such arguments; `jax.jit` finds it when it is called."""
        given = (static, *arguments) if self._region.static else arguments
        return self._jitted_itself.lower(*given).compile()

    def _is_not_compiled(self, static: tuple[object, ...], arguments: Sequence[object]) -> bool:
        """Return True if XLA cannot compile the region, but for want of memory."""
        self._policy.jit(jax.numpy.negative).lower(0.0).compile()  # not for unknown options
        try:
            self._compiled(static, arguments)
        except FailureOfXLA as error:
            return not is_out_of_memory(error)
        return False

    def _one_by_one(
        self,
        static: tuple[object, ...],
        arguments: Sequence[object],
        error: BaseException | None = None,
    ) -> Computed:
        """The same, of operations that XLA compiles each by itself."""
        found = self._program(static, *arguments)
        self._stats.fallbacks += 1
        this_thread.kind = "operation by operation: region"
        cause = "" if error is None else f": {error!s:.300}"
        what = f"XLA cannot compile region {self._region.index}, its operations run one by one"
        Topic.FALLBACKS.log(lambda: f"{what}, called at {running_line()}{cause}")
        return found

    def is_beyond(self, static: tuple[object, ...], arguments: Sequence[object]) -> bool:
        """Return True if the limit has been reached, and there is no code for the arguments."""
        return self._limited is not None and _signature(static, arguments) not in self._seen

    def traced(
        self, static: tuple[object, ...], *arguments: object, meet: Meet | None = None
    ) -> Computed:
        """The same while JAX traces.

        ``meet`` is called when the compilation has been counted: gives the code that this becomes.

        Raises
        ------
        NewSizeError
            For a second value of a size that may become data.
        NotAcceptedError
            Where the limit has been reached.
        OtherCodeError
            Where ``meet`` finds the code of an equal function.
        """
        ranks = getattr(self._program, "ranks", ())
        found = (getattr(argument, "ndim", None) for argument in arguments)  # a list has none
        if any(one not in (None, other) for one, other in zip(ranks, found, strict=False)):
            raise OtherRankError
        signature = _signature(static, arguments)
        if self._missing.get(signature) is not None:
            raise IsLargeError
        if signature in self._refused:
            raise self._refused[signature].with_traceback(None)
        self._look_for_new_sizes(static, signature)
        made = len(self._seen.keys() - self._refused.keys())
        if made >= self._policy.limit and signature not in self._seen:
            raise LimitReachedError
        if self._seen and signature not in self._seen:
            Topic.RECOMPILES.log(lambda: self._recompiled(signature))
        self._seen.setdefault(signature)
        this_thread.kind = "compilation of region"
        if (why := self._counted.pop(signature, None)) is not None:
            Topic.RECOMPILES.log(lambda: f"region {self._region.index} {why}")
        else:
            self._stats.compilations[self._region.index] += 1
            self._note(static, arguments)
        code = None if meet is None else self._met(meet)
        try:
            found = self._program(static, *arguments)
        except Exception as error:
            self._refuse(signature, error, arguments, is_counted=why is None)
            raise
        # Code out of a file does not say how much it computes.
        entries = getattr(self._program, "entries", 0)
        self.entries = max(self.entries, entries)
        if code is not None:
            code.entries = entries
        is_new = entries > _LARGE and signature not in self._missing
        if is_new and may_not_fit(entries, arguments):
            self._counted[signature] = "is compiled to see how much memory it needs"
            raise IsLargeError
        return found

    def _refuse(
        self, key: tuple[object, ...], error: Exception, given: Sequence[object], is_counted: bool
    ) -> None:
        """Note the refusal, but not of sparse matrices, which differ in more than the shape."""
        if is_counted:  # and nothing has been compiled
            self._stats.compilations[self._region.index] -= 1
            self._stats.signatures[self._region.index].pop()
        if not any(isinstance(each, SparseValue) for each in given):
            keep_error(self._refused, key, error)

    def _met(self, meet: Meet) -> RegionCode:
        try:
            return meet()
        except OtherCodeError as other:
            if other.code is not None:
                self._stats.equal_code += 1
                self.entries = max(self.entries, getattr(other.code, "entries", 0))
                Topic.RECOMPILES.log(
                    lambda: f"region {self._region.index} runs the code of an equal function"
                )
            raise

    def compile_again(self) -> None:
        """Expect the compilations that have been counted once more: the code is not there now."""
        self._counted |= dict.fromkeys(self._seen, "stops sharing its code")

    def measure(self, kinds: Sequence[jax.ShapeDtypeStruct]) -> int:
        """The entries that the program computes for such arguments; JAX only traces it."""
        eval_shape(partial(self._program, ()), *kinds)
        return getattr(self._program, "entries", 0)

    def _look_for_new_sizes(
        self, static: tuple[object, ...], signature: tuple[object, ...]
    ) -> None:
        """Raise `NewSizeError` for what may become data."""
        may_change = self._seen or self._policy.dynamic
        if self._resizing is None or not may_change or signature in self._seen:
            return
        seen, count = list(zip(*self._seen, strict=True)), len(static)
        places = zip(self._region.static, static, seen, strict=False)
        changed = frozenset(number for number, value, values in places if value not in values)
        shapes = [*zip(*seen[count:], strict=True), signature[count:]]
        change = NewSizeError(changed, self._lengths(shapes), self._plan, len(self._seen))
        if self._resizing.may_change(change):
            # It holds on to the caller's frames.
            change.args = (self._recompiled(signature) if self._seen else "lengths are data",)
            raise change

    def _lengths(self, shapes: Sequence[Sequence[Any]]) -> dict[tuple[int, int], list[int]]:
        """For each dimension of an input of the plan the lengths that it has had."""
        inputs, found = self._plan.inputs, dict[tuple[int, int], list[int]]()
        for k, number in enumerate(self._region.arguments):
            if number in inputs:
                each = [shape[k] for shape in shapes]
                for axis in range(min(map(len, each))):
                    found[inputs.index(number), axis] = [shape[axis] for shape in each]
        return found

    def jitted(self, traced: Callable[..., Computed]) -> Any:
        """The jitted form of `traced`, or of a function that calls it.

        The function does not take the static values where the region has none.
        """
        if self._region.static:
            return self._policy.jit(traced, static_argnums=0)
        return self._policy.jit(lambda *arguments: traced((), *arguments))

    def _note(self, static: tuple[object, ...], arguments: Sequence[object]) -> None:
        """Keep what the region is traced for, so that it can be saved for that."""
        kinds = jax.tree_util.tree_map(kind_of, list(arguments))
        self._stats.signatures[self._region.index].append((static, kinds))

    def _recompiled(self, signature: tuple[object, ...]) -> str:
        return compiled_once_more(self._plan, self._region, [*self._seen], signature)


def kind_of(value: Any) -> Any:
    """The shape and dtype of an array, or of a number of NumPy; other values as they are."""
    return jax.ShapeDtypeStruct(value.shape, value.dtype) if _is_array(value) else value


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic | jax.Array)


def _signature(static: tuple[object, ...], arguments: Sequence[Any]) -> tuple[object, ...]:
    return (*static, *(np.shape(argument) for argument in arguments))
