"""The devices of shared variables: noted when they are saved, and found again when loaded.

A file names devices and axes, and this process says what these names mean: where it has no such
devices, a value is a NumPy array, which runs where JAX's default is.
"""

from __future__ import annotations

from collections.abc import Sequence
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

from pytensor_jaxlink.artifact.documents import Json, Parsed
from pytensor_jaxlink.runtime.typed_jax import device_put_now


def placement_of(value: object) -> Json:
    """The devices that an array lies on, as JSON; None where that is JAX's default."""
    where = value.sharding if isinstance(value, jax.Array) else None
    if isinstance(where, SingleDeviceSharding):
        [device] = where.device_set
        return None if device == jax.local_devices()[0] else {"devices": [_name(device)]}
    if not isinstance(where, NamedSharding) or not isinstance(where.mesh, Mesh):
        return None
    mesh = where.mesh
    return {
        "devices": [_name(device) for device in mesh.devices.flat],
        "axes": [
            [name, size, kind.name]
            for (name, size), kind in zip(mesh.shape.items(), mesh.axis_types, strict=True)
        ],
        "spec": [_axes(part) for part in where.spec],
    }


def _name(device: Any) -> Json:
    return [device.platform, device.id]


def _axes(part: object) -> list[str]:
    match part:
        case str():
            return [part]
        case tuple():
            return list(part)
    return []


def placed(value: np.ndarray, described: Parsed, asked: object) -> jax.Array | np.ndarray:
    """A value where it was, or where it is asked for.

    ``asked`` is a device, which takes all; a mesh, over which what was spread is spread by the
    names of its axes; or None for the devices that it was on, or the mesh of `jax.set_mesh`.
    """
    where = _sharding(described, asked)
    if where is None:
        return value
    try:
        where.shard_shape(np.shape(value))
    except ValueError:  # the mesh has another number of devices
        return value
    return device_put_now(value, where)


def _sharding(described: Parsed, asked: object) -> Sharding | None:
    if asked is not None and not isinstance(asked, Mesh):
        return SingleDeviceSharding(asked)
    if described is None:
        return None
    if "axes" in described:
        return _spread(described, asked)
    devices = _devices(described["devices"]) if asked is None else None
    return None if devices is None else SingleDeviceSharding(devices[0])


def _spread(described: Parsed, asked: Mesh | None) -> Sharding | None:
    spec = PartitionSpec(*(tuple(names) or None for names in described["spec"]))
    names = {name for part in described["spec"] for name in part}
    for mesh in (asked, jax.sharding.get_mesh()):
        if mesh is not None and mesh.axis_names and names <= set(mesh.axis_names):
            return NamedSharding(mesh, spec)
    devices = _devices(described["devices"]) if asked is None else None
    if devices is None:
        return None
    axes, sizes, kinds = zip(*described["axes"], strict=True)
    grid = np.array(devices, object).reshape(sizes)
    mesh = Mesh(grid, axes, axis_types=tuple(AxisType[kind] for kind in kinds))
    return NamedSharding(mesh, spec)


def _devices(names: Sequence[tuple[str, int]]) -> list[Any] | None:
    """Devices by platform and number; None where this process does not have all."""
    there = {(device.platform, device.id): device for device in jax.local_devices()}
    found = [there.get((platform, number)) for platform, number in names]
    return None if None in found else found
