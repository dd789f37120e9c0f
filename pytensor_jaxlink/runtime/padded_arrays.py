"""The longer copies of arguments: zeros are behind their values."""

from __future__ import annotations

from typing import Any
from weakref import ref

import jax
import numpy as np

from pytensor_jaxlink.runtime.devices import to_numpy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import ARRAY, class_of, device_put

_NUMPY_ARRAY = np.ndarray  # looked up once, not in each call


class PaddedArrays:
    """Makes the longer copies of the arguments of a function.

    An array of JAX does not change, and that of a shared variable comes in each call.  So the copy
    of one that comes again is kept on its device: as long as the array lives, and no other one has
    come in its place.  Whoever donates looks at the references to an array, so it donates no copy
    that is kept.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[ref[Any], tuple[int, ...], Any]] = {}

    def padded(self, position: int, value: Any, shape: tuple[int, ...], stats: Stats) -> object:
        """The value of an argument in a longer shape.

        Parameters
        ----------
        position
            The argument.
        value
            An array of NumPy or of JAX, or the shape and the dtype of one.
        shape
            The shape.
        stats
            Counts the bytes that are fetched from a device.
        """
        kind = class_of(value)
        if kind is jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, value.dtype)
        if shape == value.shape:
            return value
        if kind is not ARRAY:
            return _longer(value, shape)
        last, of, copy = self._last.get(position, _NOTHING)
        comes_again = last() is value and of == shape and not value.is_deleted()
        if comes_again and copy is not None:
            return copy
        found: Any = _longer(to_numpy(value, stats), shape)
        if comes_again or value.committed:
            found = device_put(found, value.sharding if value.committed else None)
        kept = found if comes_again else None
        self._last[position] = self._reference(position, value), shape, kept
        return found

    def _reference(self, position: int, value: Any) -> ref[Any]:
        """A reference to an array; when the array goes, so does its copy."""
        last = self._last

        def forget(gone: ref[Any]) -> None:
            if last.get(position, _NOTHING)[0] is gone:
                last.pop(position, None)  # another thread may have been faster

        return ref(value, forget)


def _absent() -> None:
    return None


_NOTHING = _absent, (), None


def _longer(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    # By NumPy: JAX would compile a program for each length.
    found = np.zeros(shape, value.dtype)
    found[tuple([slice(length) for length in value.shape])] = value
    return found
