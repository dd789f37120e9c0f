"""How a function is called: the direct way where there is one, else the general way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from pytensor.compile.executor import Function
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.tensor.type import DenseTensorType

from pytensor_jaxlink.errors import FAILED_NODE, FAILED_ON_HOST, DoesNotFitError
from pytensor_jaxlink.link.fitting import fitter
from pytensor_jaxlink.link.shared import hold_arrays
from pytensor_jaxlink.runtime import (
    ARRAY,
    Donatable,
    Stored,
    all_from_parent,
    named_from_parent,
    note_different_devices,
    refuse_donated,
    replace_in_forked_child,
)

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph


class DirectFunction(Function):
    """A `Function` whose calls go to what JAX has compiled, past PyTensor's storage and filters."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        explicit = [spec for spec in self.maker.inputs if not spec.implicit]
        # Inputs that the user gives come first, and none has a default or an update of its own.
        self._has_short_way = all(
            container.required and spec.update is None
            for spec, container in zip(explicit, self.input_storage, strict=False)
        )
        self._cells = [container.storage for container in self.input_storage[len(explicit) :]]
        self._fitters = [fitter(container) for container in self.input_storage[: len(explicit)]]
        named = Counter(spec.name for spec in self.maker.inputs)
        # A name that several inputs have is nobody's, as in PyTensor.
        self._names: list[Any] = [spec.name if named[spec.name] == 1 else None for spec in explicit]
        self._executor: Any = None  # that `_direct` belongs to
        self._direct: Any = None
        self._misfits = 0
        if self._compiled.options.outputs == "jax":
            for spec in self.maker.inputs:
                if isinstance(spec.variable, SharedVariable):
                    hold_arrays(spec.variable.container)
        if not self._compiled.exported:
            self._find_direct()  # and move large constants, now and not in the first call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function; see `pytensor.compile.executor.Function.__call__`.

        A function that is one region goes to the function that `jax.jit` made of it: JAX tells
        arguments of other types apart, and those of types that do not fit are found while it
        traces.  Whatever else there is to be done (another type, a condition that is false, an
        error) is done by going the general way from the start.

        Otherwise positional arguments that fit their type as they are go to the regions without
        passing PyTensor's filter and its storage.  A `jax.Array` never visits the host.  A function
        without updates may be called from many threads.
        """
        direct = self._direct
        if direct is None or kwargs:
            return self._first_or_named(args, kwargs)
        moved = 0
        for value in args:
            if type(value) is _NUMPY_ARRAY:
                moved += value.nbytes
        if moved:
            self._stats.bytes_to_device += moved
            if len(args) > 1 and (moved > _SMALL or args[0] is args[1]):
                args = self._moved_once(args)
        try:
            try:
                outputs = direct(*args)
            except Exception as error:
                if hasattr(error, FAILED_ON_HOST) and not hasattr(error, FAILED_NODE):
                    raise
                return self._general(args, {}, error)
            self._stats.direct += 1
            if type(outputs) is ARRAY:
                return outputs
            return self._finished(outputs, args)
        finally:
            if self._windows.open:  # JAX has compiled
                self._windows.leave()

    def _call_in_child(self, *args: Any, **kwargs: Any) -> Any:
        """A call in a process that was forked from one in which JAX has run."""
        for container in self.input_storage:
            [container.storage[0]] = all_from_parent(container.storage)
        return super().__call__(*all_from_parent(args), **named_from_parent(kwargs))

    def _first_or_named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call before the function is known to have a direct way, or with names."""
        names = self._names[len(args) :]
        if kwargs and len(names) == len(kwargs) and kwargs.keys() >= set(names):
            return self(*args, *[kwargs[name] for name in names])
        if kwargs or (self._direct is None and self._executor is self.vm.compiled.executor):
            return self._checked(*args, **kwargs)
        if self._compiled.exported and self._compiled.options.outputs == "jax":
            self._commit_states(args)
        return self._general(args, {}) if self._find_direct() is None else self(*args)

    def _commit_states(self, args: tuple[Any, ...]) -> None:
        """Put states where exported code leaves them, so that JAX compiles once."""
        updates: Any = self._update_input_storage
        cells = [c.storage for _, c in updates if isinstance(c.type, DenseTensorType)]
        values = [*[cell[0] for cell in cells], *args]
        self.vm.commit(values, range(len(cells)))
        for cell, value in zip(cells, values, strict=False):
            cell[0] = value

    def _moved_once(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments; an array that is given several times goes to the device once."""
        if len({*map(id, args)}) == len(args):
            return args
        moved: dict[int, Any] = {}
        for value in args:
            if type(value) is not _NUMPY_ARRAY:
                continue
            if id(value) in moved:
                self._stats.bytes_to_device -= value.nbytes
            else:
                moved[id(value)] = jax.device_put(value)
        return tuple(moved.get(id(value), value) for value in args)

    def _finished(self, outputs: Any, args: tuple[Any, ...]) -> Any:
        """What the caller gets of what the direct way gives, after conditions and updates."""
        if type(outputs) is tuple:
            outputs, holds = self.vm.settled(outputs, args)
            if not holds:
                self._stats.direct -= 1
                return self._general(args, {})
        return self._updated(outputs) if self._has_updates else outputs

    def _general(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception | None = None
    ) -> Any:
        """The call by the general way."""
        self._misfits += isinstance(error, DoesNotFitError)
        if self._misfits > _MISFITS:
            self._direct = None  # the general way is faster than failing
        try:
            return self._checked(*args, **kwargs)
        except RuntimeError:
            refuse_donated(self.input_names, args)
            raise
        except ValueError as raised:
            states = [cell[0] for cell in self._cells]
            note_different_devices(raised, self.input_names, [*args, *states])
            raise
        finally:
            if self.vm.compiled.executor is not self._executor:
                self._direct = None  # it was learned from a failure

    def _find_direct(self) -> Any:
        """The function, as it is compiled now, as one that JAX can call, or None."""
        executor = self.vm.compiled.executor
        if executor is not self._executor:
            self._executor, self._stats = executor, self._compiled.stats
            self._windows = self._compiled.policy.windows
            self._direct = None
            if self._has_short_way and not self.profile:
                self._direct = self.vm.direct(self._pack, self._cells, self._donatable(), self._fit)
        return self._direct

    def _fit(self, position: int, value: Any) -> Any:
        """An argument as it goes on, or None; what shared variables hold has been looked at."""
        return self._fitters[position](value) if position < len(self._fitters) else value

    def _donatable(self) -> Donatable | None:
        """What the function may donate, None where that is nothing."""
        donate = self._compiled.options.donate
        if donate == "none":
            return None
        containers = list(self.input_storage)
        updates: Any = self._update_input_storage
        updated = {
            containers.index(container): (output, container.storage)
            for output, container in updates
        }
        given = frozenset(
            position
            for position, spec in enumerate(self.maker.inputs[: len(self._fitters)])
            if donate != "updates" or spec.mutable
        )
        if not updated and not given:
            return None
        return Donatable(list(self.input_names), updated, given, donate == "warn")

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self.profile or not self._has_short_way or len(args) != len(self._fitters):
            return super().__call__(*args, **kwargs)
        values: list[Any] = list(args)
        if not self.trust_input:
            for position, fit in enumerate(self._fitters):
                values[position] = fit(args[position])
                if values[position] is None:
                    return super().__call__(*args)
        values += [cell[0] for cell in self._cells]
        outputs = self.vm.run(values)
        return self._updated(outputs) if self._has_updates else self._pack(outputs)

    def _pack(self, outputs: list[Any]) -> Any:
        """What the caller gets; updates have to be stored first, and stay in the list."""
        if self._has_updates:
            return outputs
        if self.unpack_single:
            return outputs[0]
        return None if self.return_none else outputs

    def _updated(self, outputs: list[Any]) -> Any:
        if type(outputs) is not Stored:
            updates: Any = self._update_input_storage
            self.vm.store(
                [container.storage for _, container in updates],
                [outputs[position] for position, _ in updates],
            )
        if self.unpack_single:
            return outputs[0]
        return None if self.return_none else outputs[: self._n_returned_outputs]

    @property
    def _compiled(self) -> CompiledGraph:
        return self.vm.compiled


replace_in_forked_child(
    DirectFunction,
    __call__=DirectFunction._call_in_child,
    _find_direct=lambda self: None,  # what it would move to the device is not needed
)

_NUMPY_ARRAY = np.ndarray  # looked up once, not in each call

_SMALL = 4096
"""Bytes; moving less twice is faster than looking for arrays that are given twice."""

_MISFITS = 4
"""How often arguments of other types are tried, before they are looked at before each call."""
