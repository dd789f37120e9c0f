"""Programs that need more memory than their device has.

JAX starts a program and returns, so a lack of memory shows when somebody reads a result: too late
for PyTensor to finish the call, which may need far less.  A program of so many entries is compiled
first, and XLA says how much memory it needs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from pytensor_jaxlink.runtime.devices import place_for
from pytensor_jaxlink.runtime.typed_jax import Device, configuration, first_device, local_devices

_BYTES = 16
"""The most bytes of an entry: those of a complex number."""


class NotEnoughMemoryError(MemoryError):
    """A program needs more memory than there is."""


class Account(Protocol):
    """The bytes that a compiled program needs, as XLA says."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int


def may_not_fit(entries: int, values: Sequence[object]) -> bool:
    """Return True if a program that computes so many entries may need more memory than there is.

    ``values`` are its arguments, whose device counts.
    """
    return entries * _BYTES > _memory_of(_device_of(values))


def missing(account: Account | None, values: Sequence[object]) -> str | None:
    """The memory that is missing for a program, in words; None where there is enough."""
    if account is None:
        return None
    needed = (
        account.argument_size_in_bytes + account.output_size_in_bytes
        + account.temp_size_in_bytes - account.alias_size_in_bytes
    )  # fmt: skip
    there = _memory_of(_device_of(values))
    if needed <= there:
        return None
    return f"a program needs {needed:,} bytes, and there are {there:,}"


def _device_of(values: Sequence[object]) -> Device:
    if (place := place_for(values)) is not None:
        return first_device(place)
    given = configuration.jax_default_device
    return local_devices(backend=given)[0] if given is None or isinstance(given, str) else given


@cache
def _memory_of(device: Device) -> float:
    """The bytes that JAX may use of a device; infinity where nobody says."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    if limit is None and device.platform == "cpu" and hasattr(os, "sysconf"):
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return float("inf") if limit is None else limit
