"""Shared variables that hold arrays of JAX.

Updates leave the arrays where they were computed, so the calls of our functions copy nothing.
Everybody else sees NumPy arrays: who asks for the value, and the functions of other modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from typing import Any

import numpy as np
from pytensor.compile.executor import Function
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.link.basic import Container
from pytensor.link.jax.linker import JAXLinker as PyTensorJAXLinker
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.runtime import ARRAY, brought_along, value_of_state


class _HoldsArrays(TensorType):
    """A type that takes a `jax.Array` of its dtype, rank and static lengths as it is.

    PyTensor's own type makes a NumPy array of it, which gathers what lies on several devices.
    """

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        accepted = (
            type(data) is ARRAY
            and data.dtype == self.dtype
            and data.ndim == self.ndim
            and all(n in (None, m) for n, m in zip(self.shape, data.shape, strict=True))
        )
        return data if accepted else super().filter(data, strict, allow_downcast)

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


def _value_for_all(get_value: Callable[..., Any]) -> Callable[..., Any]:
    """`SharedVariable.get_value` for variables that hold an array of JAX: see `value_of_state`."""

    @wraps(get_value)
    def value_for_all(
        variable: SharedVariable, borrow: bool = False, return_internal_type: bool = False
    ) -> Any:
        value = variable.container.storage[0]
        if type(value) is ARRAY:
            return value_of_state(value, borrow, return_internal_type)
        return get_value(variable, borrow, return_internal_type)

    return value_for_all


def _call_with_numpy(call: Callable[..., Any]) -> Callable[..., Any]:
    """`Function.__call__`, which lends NumPy arrays to functions that cannot read those of JAX."""

    @wraps(call)
    def call_with_numpy(function: Function, /, *args: object, **options: object) -> Any:
        for container in function.input_storage:
            if type(container.storage[0]) is ARRAY:
                if _reads_arrays(function):
                    break
                with _lent(function):
                    return call(function, *args, **options)
        return call(function, *args, **options)

    return call_with_numpy


def _reads_arrays(function: Function) -> bool:
    return isinstance(function.maker.linker, JAXLinker | PyTensorJAXLinker)


@contextmanager
def _lent(function: Function) -> Iterator[None]:
    """NumPy arrays in the place of those of JAX, which come back where the call leaves no others.

    The arrays are copies, because functions of other modes write into those of states they update.
    """
    lent = [
        (container.storage, container.storage[0], np.array(container.storage[0]), spec.mutable)
        for container, spec in zip(function.input_storage, function.maker.inputs, strict=True)
        if type(container.storage[0]) is ARRAY
    ]
    for cell, _, copy, _ in lent:
        cell[0] = copy
    succeeded = False
    try:
        yield
        succeeded = True
    finally:
        for cell, value, copy, mutable in lent:
            if cell[0] is copy and not (succeeded and mutable):
                cell[0] = value


def _copied_with_array(deepcopied: Callable[..., Any]) -> Callable[..., Any]:
    """`Container.__deepcopy__`, which also copies one that holds an array of JAX.

    These arrays are immutable, so the copy may hold the same one; what is copied is the cell.
    """

    @wraps(deepcopied)
    def copied_with_array(container: Container, memo: dict[int, Any]) -> Container:
        value = container.storage[0]
        if type(value) is not ARRAY:
            return deepcopied(container, memo)
        return Container(
            deepcopy(container.type, memo),
            memo.setdefault(id(container.storage), [memo.setdefault(id(value), value)]),
            readonly=container.readonly,
            strict=container.strict,
            allow_downcast=container.allow_downcast,
            name=container.name,
        )

    return copied_with_array


def _share() -> None:
    """Change how PyTensor reads shared variables, once, before the first of them holds an array."""
    changes: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (SharedVariable, "get_value", _value_for_all),
        (Function, "__call__", _call_with_numpy),
        (Container, "__deepcopy__", _copied_with_array),
    ]
    for owner, name, change in changes:
        setattr(owner, name, change(getattr(owner, name)))


_share()
