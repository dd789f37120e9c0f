"""Where arrays lie: on one device, on several, on those of other processes.

JAX compiles for the devices that the arguments lie on, so there is little to do here: constants
follow the arguments, new states lie as the old ones did, and what the host needs is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import JAXLinkError
from pytensor_jaxlink.generators import KeyGenerator, held_key, take_place
from pytensor_jaxlink.plan import ARRAYS, Kind, fits
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import (
    ARRAY,
    Tracer,
    class_of,
    configuration,
    default_backend,
    device_put,
    device_put_now,
    local_devices,
    with_sharding_constraint,
)
from pytensor_jaxlink.runtime.waiting import wait_for_all, waited_for
from pytensor_jaxlink.sparse_values import SparseValue


def to_numpy(value: Any, stats: Stats) -> np.ndarray:
    """A value as a NumPy array, counted in ``stats`` where it lay on the device.

    Of an array that lies on several devices the parts are gathered.  Where some belong to other
    processes, all processes have to take part: they do, as all of them run the same plan.
    """
    # Asked whether a deleted array is there, JAX 0.10 ends the process; NumPy gets JAX's error.
    if type(value) is not ARRAY or value.is_deleted():
        return np.asarray(value)
    # Asked in this order, what is the rule is found fast.
    if type(value.sharding) is not SingleDeviceSharding and not value.is_fully_replicated:
        stats.arrays_gathered += 1
        if not value.is_fully_addressable:
            from jax.experimental.multihost_utils import process_allgather  # starts JAX's backends

            value = process_allgather(value, tiled=True)
    array = waited_for(value)
    stats.bytes_to_host += array.nbytes
    return array


def copying_to_host(stats: Stats) -> Callable[[Any], np.ndarray]:
    """A function that gives a value as a NumPy array of its own: views of JAX's are read-only.

    This is the end of each call of a function that gives NumPy arrays.  The common case, a result
    on one device that is there, is one frame of Python.
    """

    def copy(value: Any) -> np.ndarray:
        one = type(value) is ARRAY and type(value.sharding) is SingleDeviceSharding
        if not one or value.is_deleted() or not value.is_ready():
            return np.array(to_numpy(value, stats))
        array = np.array(value)
        stats.bytes_to_host += array.nbytes
        return array

    return copy


def place_for(values: Iterable[object]) -> Sharding | None:
    """Where constants have to be for a call with these values, None where JAX decides.

    Constants that lie elsewhere would be copied there in each call.
    """
    for value in values:
        sharding = sharding_of(value)
        if type(sharding) is NamedSharding:
            return NamedSharding(sharding.mesh, PartitionSpec())
        if type(sharding) is SingleDeviceSharding and getattr(value, "committed", False):
            return sharding
    return None


def sharding_of(value: Any) -> Sharding | None:
    """How an array, or what stands for one, lies on the devices; None for all else."""
    kind = class_of(value)
    return value.sharding if kind is ARRAY or kind is jax.ShapeDtypeStruct else None


def placed_on(where: NamedSharding, new: Any) -> Any:
    """A new value of a state, spread over devices as the old one is.

    One of another shape stays as it is where it cannot be divided so.
    """
    if where == sharding_of(new):
        return new
    try:
        where.shard_shape(np.shape(new))
    except ValueError:
        return new
    return device_put_now(new, where)


def ready_as(old: Sequence[Any], new: Iterable[object]) -> list[object]:
    """New values of states, spread over the devices as the old ones are, when all are there.

    Nobody waits for generators (`generators.take_place`).

    Raises
    ------
    JAXLinkError
        If JAX traces a new value: nothing can hold it when JAX has done.
    """
    values = list(new)
    others = [value for value in values if type(value) is not ARRAY]
    if others:
        if any(map(_is_traced, others)):
            raise traced_update()
        for pair in zip(old, values, strict=True):
            take_place(*pair)
    for place, before in enumerate(old):  # most lie on one device
        if type(before) is ARRAY and type(before.sharding) is NamedSharding:
            values[place] = placed_on(before.sharding, values[place])
    wait_for_all(values)
    return values


def _is_traced(value: object) -> bool:
    part = held_key(value) if isinstance(value, KeyGenerator) else value
    return issubclass(class_of(part), Tracer)


def traced_update() -> JAXLinkError:
    """The error of a call that JAX traces, of a function that updates shared variables."""
    return JAXLinkError(
        "JAX traces this call, and the function updates shared variables, which can only hold "
        f"values that are known. {Remedy.STATE_AS_ARGUMENT.text()}.",
        code=Code.TRACED_UPDATE,
    )


def commit(values: list[object], positions: Sequence[int]) -> None:
    """Put states that are NumPy's on the device where they are needed, to stay there.

    What code made by `jax.export` gives lies like that, and JAX compiles anew for an argument that
    does and did not before.

    The values of a call are replaced in place, at the positions of the states that it updates.
    """
    moving = [position for position in positions if type(values[position]) is np.ndarray]
    where = place_for(values) if moving else None
    if not isinstance(where, NamedSharding):
        for position in moving:
            array = device_put_now(detached(values[position]), where)
            values[position] = device_put_now(array, array.sharding)


def constrained_as(where: Sharding | None, old: Any, new: Any) -> Any:
    """The same while JAX traces, where it does not know that ``old`` has the sharding ``where``."""
    if not isinstance(where, NamedSharding) or old.shape != new.shape:
        return new
    return with_sharding_constraint(new, where)


def note_different_devices(error: Exception, names: Sequence[str], values: Iterable[Any]) -> None:
    """Add to an error which arguments lie on different devices, where some do."""
    places: dict[frozenset[object], list[str]] = {}
    for name, value in zip(names, values, strict=False):
        if type(value) is ARRAY and value.committed:
            places.setdefault(frozenset(value.sharding.device_set), []).append(name)
    if len(places) > 1:
        found = "; ".join(f"{', '.join(who)} on {_shown(where)}" for where, who in places.items())
        text = (
            f"the arguments are committed to different devices: {found}. "
            f"{Remedy.SAME_DEVICES.text()}, or {Remedy.NUMPY_ARRAYS.text()}"
        )
        error.add_note(Code.DIFFERENT_DEVICES.mark(text))


def _shown(devices: Iterable[Any]) -> str:
    first, *rest = sorted(devices, key=lambda device: device.id)
    return f"{first} and {len(rest)} more" if rest else str(first)


# -- meshes with explicit axes ---------------------------------------------------------------------


def is_explicit(mesh: Any) -> bool:
    """Return True if JAX checks the sharding of each operation on arrays of a mesh."""
    return AxisType.Explicit in mesh.axis_types


def traced_explicitly(value: object) -> bool:
    """Return True if JAX traces a value with the sharding in its type."""
    return is_explicit(jax.typeof(value).sharding.mesh)


def accepts(value: Any, kind: Kind, *, x64: bool = True) -> bool:
    """Return True if a value that JAX traces has the type of an array, number or sparse matrix.

    The type is one of those that JAX now has.  With ``x64``, 64-bit types have to be on for arrays:
    else JAX may have changed the type before this.
    """
    if kind.kind == "sparse":
        is_one = isinstance(value, SparseValue) and value.format == kind.format
    else:
        is_one = kind.kind in ARRAYS and (configuration.jax_enable_x64 or not x64)
        is_one = is_one and not traced_explicitly(value)
    has_type = is_one and getattr(value, "dtype", None) == kind.dtype
    return has_type and fits(value.shape, kind.shape or ())


_ALIGNED = 64
"""Bytes; JAX on a CPU reads memory that begins at a multiple of these without copying it."""

COPIED_FAST = 2**16
"""Bytes; a copy of fewer takes less time than to look where they lie."""


def detached(value: Any) -> Any:
    """An array of NumPy's as JAX may read it when the call that it was given to has returned.

    JAX computes while Python goes on, and of memory that it takes without a copy it reads what the
    caller writes into it then (docs/upstream.md).  On a CPU it copies what is not aligned.

    All else is returned as it is.
    """
    if not issubclass(class_of(value), np.ndarray):
        return value
    if value.nbytes >= COPIED_FAST and value.ctypes.data % _ALIGNED and default_backend() == "cpu":
        return value
    return value.copy()


def as_jax_takes_it(value: object) -> object:
    """A value; an array of NumPy's as one that JAX takes, and that nobody else writes into.

    PyTensor converts byte orders, but where arguments are trusted, and computes with the data of
    masked arrays.  JAX refuses both, or, once it has compiled for the type, takes their bytes.
    """
    if np.ma.isMaskedArray(value):
        value = np.asarray(value)
    found = detached(value)
    if issubclass(class_of(found), np.ndarray) and not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    return found


def note_explicit_axes(error: Exception, values: Iterable[object]) -> None:
    """Add to an error that JAX traces values with their sharding, where it does."""
    if any(isinstance(value, Tracer) and traced_explicitly(value) for value in values):
        text = (
            "the arguments lie on a mesh with explicit axes, on which JAX asks for the sharding of "
            "results, and a PyTensor graph cannot say it. "
            f"{Remedy.AUTO_MESH.text()}, or {Remedy.CALL_ITSELF.text()}"
        )
        error.add_note(Code.EXPLICIT_MESH.mark(text))


def explicit_mesh(values: Sequence[jax.Array]) -> Mesh | None:
    """The mesh with explicit axes that some of the values lie on, or that is set."""
    for value in values:
        if type(value) is not ARRAY or type(value.sharding) is not NamedSharding:
            continue
        mesh: Any = value.sharding.mesh  # of an array, a concrete one
        if is_explicit(mesh):
            return mesh
    if is_explicit(jax.sharding.get_abstract_mesh()):
        return jax.sharding.get_mesh()
    return None


def run_in_auto(
    run: Callable[[Sequence[object]], list[object]], values: Sequence[object], mesh: Mesh
) -> list[object]:
    """Run on the same devices, with XLA deciding how operations are divided.

    With explicit axes JAX asks the author of an operation how its result is to lie where that is
    open (the product in the gradient of a sharded regression).  A PyTensor graph has no place to
    say it.  No data is moved: arrays are looked at as those of another mesh, results again as those
    of the first.
    """
    auto = _auto(mesh)
    values = [_on(auto, value, mesh) for value in values]
    with _within(auto):
        return [_on(mesh, value, auto) for value in run(values)]


@cache
def _auto(mesh: Mesh) -> Mesh:
    types = (AxisType.Auto,) * len(mesh.axis_names)
    return Mesh(mesh.devices, mesh.axis_names, axis_types=types)


def _on(target: Mesh, value: object, source: Mesh) -> object:
    sharding = sharding_of(value)
    if not isinstance(sharding, NamedSharding) or sharding.mesh != source:
        return value
    return device_put(value, NamedSharding(target, sharding.spec))


def _within(mesh: Mesh) -> AbstractContextManager[object]:
    """With ``mesh`` set, where one is set."""
    return nullcontext() if jax.sharding.get_abstract_mesh().empty else jax.set_mesh(mesh)


# -- the device of a function ----------------------------------------------------------------------


def named_device(name: str) -> Any:
    """The device of a platform (``"cpu"``), or one by its number there (``"gpu:1"``).

    Raises
    ------
    ValueError
        If this process has no such device; what it has is named.
    """
    platform, _, number = name.partition(":")
    try:
        return local_devices(backend=platform)[int(number or 0)]
    except (RuntimeError, IndexError):
        there = dict.fromkeys(str(device) for device in local_devices())
        text = (
            f"device={name!r}: this process has no such device. JAX found "
            f"{', '.join(there)}; {Remedy.WRITE_PLATFORM.text()}"
        )
        raise ValueError(Code.NO_DEVICE.mark(text)) from None
