"""What shared variables hold: arrays of JAX, and how large they are."""

from __future__ import annotations

from typing import Any

from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.link.basic import Container
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.runtime import ARRAY, brought_along


class _HoldsArrays(TensorType):
    """A type that takes a `jax.Array` of its dtype, rank and static lengths as it is.

    PyTensor's own type makes a NumPy array of it, which gathers what lies on several devices.
    """

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        fits = (
            type(data) is ARRAY
            and data.dtype == self.dtype
            and data.ndim == self.ndim
            and all(n in (None, m) for n, m in zip(self.shape, data.shape, strict=True))
        )
        return data if fits else super().filter(data, strict, allow_downcast)

    def __reduce__(self) -> Any:
        # What is pickled or copied can be read without this package.
        return TensorType, (self.dtype, self.shape, self.name)


def hold_arrays(container: Container) -> None:
    """Let ``set_value`` of a shared variable keep a `jax.Array`, wherever it lies.

    Updates leave such arrays in shared variables anyway.
    """
    brought_along(container)
    kind = container.type
    if type(kind) is TensorType:
        container.type = _HoldsArrays(kind.dtype, kind.shape, kind.name)


def bytes_held(variable: Variable) -> int:
    """The size of the array that a shared variable holds now; 0 for all else."""
    if not isinstance(variable, SharedVariable):
        return 0
    return getattr(variable.container.storage[0], "nbytes", 0)
