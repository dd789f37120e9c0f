"""The longer copies of arguments: zeros are behind their values."""

from __future__ import annotations

from weakref import ref

import jax
import numpy as np

from pytensor_jaxlink.runtime.devices import to_numpy
from pytensor_jaxlink.runtime.stats import Stats
from pytensor_jaxlink.runtime.typed_jax import device_put


class PaddedArrays:
    """Makes the longer copies of the arguments of a function.

    An array of JAX does not change, and that of a shared variable comes in each call.  So the copy
    of one that comes again is kept on its device: as long as the array lives, and no other one has
    come in its place.  Whoever donates looks at the references to an array, so it donates no copy
    that is kept.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[ref[jax.Array], tuple[int, ...], jax.Array | None]] = {}

    def padded(
        self,
        position: int,
        value: jax.Array | np.ndarray | jax.ShapeDtypeStruct,
        shape: tuple[int, ...],
        stats: Stats,
    ) -> object:
        """The value of an argument in a longer shape.

        Parameters
        ----------
        position
            The argument.
        value
            Its value, or the shape and the dtype of that.
        shape
            The shape.
        stats
            Counts the bytes that are fetched from a device.
        """
        if value.shape == shape:
            return value
        if isinstance(value, np.ndarray):
            return _longer(value, shape)
        if isinstance(value, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(shape, value.dtype)
        comes_again = False
        if (known := self._last.get(position)) is not None and not value.is_deleted():
            last, of, copy = known
            comes_again = last() is value and of == shape
            if comes_again and copy is not None:
                return copy
        found = _longer(to_numpy(value, stats), shape)
        if not comes_again and not value.committed:
            self._last[position] = self._reference(position, value), shape, None
            return found
        copy = device_put(found, value.sharding if value.committed else None)
        self._last[position] = (
            self._reference(position, value),
            shape,
            copy if comes_again else None,
        )
        return copy

    def _reference(self, position: int, value: jax.Array) -> ref[jax.Array]:
        """A reference to an array; when the array goes, so does its copy."""
        last = self._last

        def forget(gone: ref[jax.Array]) -> None:
            if (known := last.get(position)) is not None and known[0] is gone:
                last.pop(position, None)  # another thread may have been faster

        return ref(value, forget)


def _longer(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    # By NumPy: JAX would compile a program for each length.
    found = np.zeros(shape, value.dtype)
    found[tuple([slice(length) for length in value.shape])] = value
    return found
