"""Shared variables that hold arrays of JAX.

Updates leave the arrays where they were computed, and data goes to the device once, so the calls of
our functions copy nothing.  Everybody else sees NumPy arrays: who asks for the value, and the
functions of other modes.
"""

from __future__ import annotations

import copyreg
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from typing import Any

import numpy as np
from pytensor.compile.executor import Function
from pytensor.compile.sharedvalue import SharedVariable, shared
from pytensor.graph.basic import Variable
from pytensor.link.basic import Container
from pytensor.link.jax.linker import JAXLinker as PyTensorJAXLinker
from pytensor.tensor.type import TensorType

from pytensor_jaxlink.link.linker import JAXLinker
from pytensor_jaxlink.plan import fits
from pytensor_jaxlink.runtime import (
    ARRAY,
    Move,
    SharedData,
    brought_along,
    holds_alone,
    lend,
    store,
    value_of_state,
)


class _HoldsArrays(TensorType):
    """A type that takes a `jax.Array` of its dtype, rank and static lengths as it is.

    PyTensor's own type makes a NumPy array of it, which gathers what lies on several devices.

    Attributes
    ----------
    data : SharedData
        Moves a large array that is set; it stays where a function reads it on the host, and where
        all that read it update it: their results take its place.
    """

    data: SharedData
    _on_host = False
    _lent: tuple[weakref.ref[object], np.ndarray] | None = None

    def __init__(
        self, dtype: str, shape: tuple[int | None, ...] | None = None, name: str | None = None
    ) -> None:
        super().__init__(dtype, shape, name)
        self.data = SharedData()

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        if type(data) is ARRAY and data.dtype == self.dtype and fits(data.shape, self.shape):
            return data
        alone = sys.getrefcount(data) <= _REFERENCES_WHEN_SET
        value = super().filter(data, strict, allow_downcast)
        return self.moved(value) if alone or value is not data else value

    def use(self, move: Move | None) -> None:
        """Note how one more function reads the variable."""
        self._on_host |= move is None
        self.data.move = None if self._on_host else move

    def moved(self, value: Any) -> Any:
        """The array on the device, where it is large; see `SharedData.moved`."""
        self._lent = None
        return self.data.moved_if_large(value)

    def lent(self, array: Any) -> np.ndarray:
        """A copy for functions that only read it; the same for all their calls."""
        if self._lent is None or self._lent[0]() is not array:
            self._lent = weakref.ref(array), np.array(array)
        return self._lent[1]

    def __reduce__(self) -> Any:
        # What is pickled or copied can be read without this package.
        return TensorType, (self.dtype, self.shape, self.name)


class _Counts(TensorType):
    """Counts the references to what is set, which depend on the version of Python."""

    found = 0

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        _Counts.found = sys.getrefcount(data)
        return data


def _references_when_set() -> int:
    """How many references ``set_value`` itself has to the copy that it makes."""
    variable: Any = shared(np.zeros(1))
    variable.container.type = _Counts("float64", (None,))
    variable.set_value(np.zeros(1))
    return _Counts.found


_REFERENCES_WHEN_SET = _references_when_set()


def hold_arrays(container: Container) -> None:
    """Let ``set_value`` of a shared variable keep a `jax.Array`, wherever it lies.

    Updates leave such arrays in shared variables anyway.
    """
    brought_along(container)
    kind = container.type
    if type(kind) is TensorType:
        container.type = _HoldsArrays(kind.dtype, kind.shape, kind.name)


def hold_data(container: Container, move: Move | None) -> None:
    """The same for a variable that a function reads; its data moves once, not in each call.

    Parameters
    ----------
    move
        Puts a NumPy array on the device; None where the function needs the value on the host.
    """
    hold_arrays(container)
    kind, cell = container.type, container.storage
    if not isinstance(kind, _HoldsArrays):
        return
    kind.use(move)
    if type(cell[0]) is np.ndarray and holds_alone(cell):
        cell[0] = kind.moved(cell[0])


def mover(container: Container) -> Move:
    """How an array of a shared variable moves when calls read it again and again."""

    def moved(value: np.ndarray) -> object:
        kind = container.type
        return kind.data.moved(value) if isinstance(kind, _HoldsArrays) else value

    return moved


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
        value, kind = variable.container.storage[0], variable.container.type
        if type(value) is ARRAY:
            lends = borrow and not return_internal_type
            if lends and isinstance(kind, _HoldsArrays) and kind.data.has_moved(value):
                # Who borrows may write into the array, and functions have to see that.
                return lend(variable.container.storage)
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
        (
            container.storage,
            container.storage[0],
            _for_others(container, spec.mutable),
            spec.mutable,
        )
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


def _for_others(container: Container, mutable: bool) -> np.ndarray:
    """A copy of the array that a container holds."""
    value, kind = container.storage[0], container.type
    if not mutable and isinstance(kind, _HoldsArrays) and kind.data.has_moved(value):
        return kind.lent(value)
    return value_of_state(value, False, False)


def _copied_with_array(deepcopied: Callable[..., Any]) -> Callable[..., Any]:
    """`Container.__deepcopy__`, which also copies one that holds an array of JAX.

    These arrays are immutable, so the copy may hold the same one; what is copied is the cell.  Of
    one that was only moved the copy holds NumPy's, into which its owner may write.
    """

    @wraps(deepcopied)
    def copied_with_array(container: Container, memo: dict[int, Any]) -> Container:
        value = container.storage[0]
        if type(value) is not ARRAY:
            return deepcopied(container, memo)
        kind = container.type
        is_lent = isinstance(kind, _HoldsArrays) and kind.data.has_moved(value)
        copied = memo.setdefault(id(value), np.array(value) if is_lent else value)
        return Container(
            deepcopy(kind, memo),
            memo.setdefault(id(container.storage), [copied]),
            readonly=container.readonly,
            strict=container.strict,
            allow_downcast=container.allow_downcast,
            name=container.name,
        )

    return copied_with_array


class _PickledCell(list[object]):
    """A cell with a NumPy array in the place of one of JAX; it is read as a list."""

    def __init__(self, value: object) -> None:
        super().__init__([np.array(value)])
        self.value = value

    def __reduce__(self) -> tuple[type, tuple[list[object]]]:
        return list, ([*self],)


_pickled: weakref.WeakValueDictionary[int, _PickledCell] = weakref.WeakValueDictionary()
"""By the cells: one for all containers of a cell, as long as a pickler holds on to it."""


def _pickled_as_numpy(get_state: Callable[..., dict[str, object]]) -> Callable[..., object]:
    """`Container.__getstate__`: processes without JAX, and other modes, read what is pickled."""

    @wraps(get_state)
    def pickled_as_numpy(container: Container) -> dict[str, object]:
        state, cell = get_state(container), container.storage
        if type(cell[0]) is not ARRAY:
            return state
        pickled = _pickled.get(id(cell))
        if pickled is None or pickled.value is not cell[0]:
            pickled = _pickled[id(cell)] = _PickledCell(cell[0])
        return state | {"storage": pickled}

    return pickled_as_numpy


Reduction = Callable[[Function], "str | tuple[Callable[..., Function], tuple[object, ...]]"]


def _pickled_function(reduce: Callable[[Function], object]) -> Reduction:
    """PyTensor's reduction of functions, which compares containers with the values that it found.

    Not those which are pickled as NumPy arrays: None stands for them.
    """

    @wraps(reduce)
    def pickled_function(function: Function) -> tuple[Callable[..., Function], tuple[object, ...]]:
        found: Any = reduce(function)
        made, (maker, containers, values, *rest) = found
        values = [None if type(value) is ARRAY else value for value in values]
        return made, (maker, containers, values, *rest)

    return pickled_function


def _copy_with_arrays(copy: Callable[..., Function]) -> Callable[..., Function]:
    """`Function.copy`, which leaves the cells that it reads as they are.

    The copy's containers would make read-only arrays of NumPy of those of JAX, for everybody.
    """

    @wraps(copy)
    def copy_with_arrays(function: Function, *args: object, **options: object) -> Function:
        cells = [container.storage for container in function.input_storage]
        held = [cell[0] for cell in cells]
        try:
            return copy(function, *args, **options)
        finally:
            store(cells, held)

    return copy_with_arrays


def _share() -> None:
    """Change how PyTensor reads shared variables, once, before the first of them holds an array."""
    changes: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (SharedVariable, "get_value", _value_for_all),
        (Function, "__call__", _call_with_numpy),
        (Function, "copy", _copy_with_arrays),
        (Container, "__deepcopy__", _copied_with_array),
        (Container, "__getstate__", _pickled_as_numpy),
    ]
    for owner, name, change in changes:
        setattr(owner, name, change(getattr(owner, name)))
    copyreg.pickle(Function, _pickled_function(copyreg.dispatch_table[Function]))


_share()
