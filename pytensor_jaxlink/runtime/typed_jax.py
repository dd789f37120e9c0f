"""The parts of JAX that its annotations leave open, with the types that we rely on.

Everything here is JAX's own object under another name, so that a call costs what it costs there.
"""
# pyright: standard

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.core
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import Sharding
from jaxlib import xla_client

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr

ARRAY: type[Any] = xla_client.ArrayImpl
"""The class of arrays: `isinstance(value, jax.Array)` runs Python code on each call.

Not the class of an array made here: that would start JAX, and options such as the number of devices
or `jax.distributed.initialize` have to come before.
"""

Tracer: type[Any] = jax.core.Tracer
"""The class of values that JAX traces."""

FailureOfXLA: type[Exception] = jax.errors.JaxRuntimeError
"""The class of errors of XLA, when it compiles and when its code runs."""


IS_TRACED: tuple[type[Exception], ...] = (
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""The classes of JAX's errors where the value of a traced array is asked for."""

class_of: Callable[[object], type[Any]] = type
"""The class of any value."""


class Device(Protocol):
    """A device."""

    id: int
    platform: str

    def memory_stats(self) -> dict[str, int] | None:
        """Figures of its memory, in bytes; None where the device has none."""
        ...


class Configuration(Protocol):
    """JAX's configuration: its flags are attributes, and most have no annotation."""

    jax_enable_x64: bool
    jax_use_shardy_partitioner: bool
    jax_compilation_cache_dir: str | None
    jax_enable_compilation_cache: bool
    jax_default_device: Device | str | None

    def update(self, name: str, value: object, /) -> None:
        """Set a flag for the process."""
        ...


block_until_ready: Callable[[Any], Any] = jax.block_until_ready
config: Any = jax.config
configuration: Configuration = config
default_backend: Callable[[], str] = jax.default_backend
eval_shape: Callable[..., Any] = jax.eval_shape
jit: Callable[..., Any] = jax.jit
live_arrays: Callable[[], list[jax.Array]] = jax.live_arrays
local_devices: Callable[..., list[Device]] = jax.local_devices
process_count: Callable[[], int] = jax.process_count
register_pytree_node: Callable[..., None] = jax.tree_util.register_pytree_node
set_cache_dir: Callable[[str], None] = compilation_cache.set_cache_dir
reset_cache: Callable[[], None] = compilation_cache.reset_cache
trace_annotation: Callable[..., AbstractContextManager[object]] = jax.profiler.TraceAnnotation
_put: Callable[[Any, Sharding | None], jax.Array] = jax.device_put
with_sharding_constraint: Callable[[Any, Sharding], Any] = jax.lax.with_sharding_constraint


def device_put(value: Any, place: Sharding | None = None) -> jax.Array:
    """`jax.device_put`, which keeps the type, also where JAX is configured without 64-bit types."""
    if configuration.jax_enable_x64:
        return _put(value, place)
    with jax.enable_x64(True):
        return _put(value, place)


def device_put_now(value: object, place: Sharding | None = None) -> jax.Array:
    """`jax.device_put` of what outlives the call: where JAX traces, too, it gives no tracer."""
    with jax.ensure_compile_time_eval():
        return device_put(value, place)


def first_device(place: Sharding) -> Device:
    """The first of the devices of a sharding."""
    return min(place.device_set, key=lambda device: device.id)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory is missing, where XLA says so by the code of its error."""
    code = getattr(error, "error_code_string", None)
    is_of_xla = isinstance(error, FailureOfXLA) and code == "RESOURCE_EXHAUSTED"
    return is_of_xla or isinstance(error, MemoryError)


def sources_of_last(jaxpr: Jaxpr) -> list[int]:
    """The positions of the inputs that the last output is computed from."""
    from jax.extend.core import Literal  # imports Pallas: 3 % of `import jax`, for loaded functions

    needed = {v for v in jaxpr.outvars[-1:] if not isinstance(v, Literal)}
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            needed.update(v for v in equation.invars if not isinstance(v, Literal))
    return [position for position, variable in enumerate(jaxpr.invars) if variable in needed]
