"""Processes forked from one in which JAX has run.

A fork copies no threads, and XLA compiles and computes in threads: in the child its first
compilation, and larger calls, would wait for them for ever.  So there our functions leave JAX
alone.  They are switched over when the child starts, so a call asks for nothing.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ForkedProcessError
from pytensor_jaxlink.frames import warn_at_user_line
from pytensor_jaxlink.generators import generator_of_key, held_key
from pytensor_jaxlink.runtime.typed_jax import ARRAY, configuration, live_arrays

_REMEDY = (
    'Start processes by another method than "fork": '
    'multiprocessing.get_context("spawn") or "forkserver".'
)
_FLAG = "jax_num_cpu_devices"

_switches: list[Callable[[], None]] = []
_switched: list[str] = []
_holders: WeakSet[Any] = WeakSet()
_said: list[str] = []


def is_forked_child() -> bool:
    """Return True if this process was forked from one in which JAX has run."""
    return bool(_switched)


def in_forked_child(switch: Callable[[], None]) -> None:
    """Have something done in each child that is forked after JAX has started.

    In such a child, which may import a module later, it is done at once.
    """
    _switches.append(switch)
    if _switched:
        switch()


def replace_in_forked_child(kind: type, **members: object) -> None:
    """Have members of a class replaced in each child that is forked after JAX has started."""

    def switch() -> None:
        for name, member in members.items():
            setattr(kind, name, member)

    in_forked_child(switch)


def brought_along(holder: object) -> None:
    """Have the array in a holder's list ``storage`` be NumPy's in a forked child.

    JAX copies its own arrays, which ``get_value`` asks for, by a program.
    """
    _holders.add(holder)


def from_parent(value: Any) -> Any:
    """A value of the parent as NumPy's, without a copy.

    Raises
    ------
    ForkedProcessError
        If only JAX's threads could give it.
    """
    if isinstance(value, np.random.Generator):
        key = held_key(value)
        return value if key is None else generator_of_key(from_parent(key))
    if type(value) is not ARRAY:
        return value
    if {device.platform for device in value.devices()} != {"cpu"}:
        raise ForkedProcessError(
            f"an array of the parent process lies on {', '.join(map(str, value.devices()))}, which "
            f"a forked process cannot reach. {_REMEDY}"
        )
    if not (value.is_deleted() or value.is_ready()):
        raise ForkedProcessError(
            "an array was still being computed by the parent process when this process was forked, "
            f"and nobody computes it here. Wait for it (block_until_ready) before. {_REMEDY}"
        )
    return np.asarray(value)


def refused(what: str) -> ForkedProcessError:
    """The error about what cannot be done in a forked process."""
    return ForkedProcessError(
        f"{what}, because this process was forked from one in which JAX has run: JAX's threads do "
        f"not exist here, and it would wait for them for ever. {_REMEDY}"
    )


def warn_once() -> None:
    """Say, once in a process, that functions run on the host."""
    if not _said:
        _said.append("in this process")
        text = (
            "this process was forked from one in which JAX has run, and JAX's threads do not exist "
            "here: functions run on the host, by PyTensor's own implementation, which is slower. "
            f"{_REMEDY}"
        )
        warn_at_user_line(text, Code.ON_HOST_IN_CHILD)


def _has_started() -> bool:
    """Return True if JAX has started: it refuses to have the number of devices changed then."""
    before: int = getattr(configuration, _FLAG)
    try:
        configuration.update(_FLAG, max(before, 0) + 1)
    except RuntimeError:
        return True
    configuration.update(_FLAG, before)
    return False


def _switch() -> None:
    if not _has_started():
        return
    _switched.append("this process")
    # Garbage of the parent is never collected here: memory of a GPU cannot be given back from
    # another process, and CUDA ends a process that tries.
    gc.freeze()
    for switch in _switches:
        switch()
    for holder in list(_holders):
        with suppress(ForkedProcessError, RuntimeError):  # who reads it is told
            holder.storage[0] = from_parent(holder.storage[0])


def _wait_for_keys() -> None:
    """Wait for the keys of generators: a child could not, and nobody else can wait for one."""
    if _has_started():
        for array in live_arrays():
            if array.shape == (2,) and array.dtype == np.uint32:
                with suppress(RuntimeError):  # it was donated, or its computation fails
                    array.block_until_ready()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_keys, after_in_child=_switch)
