"""What a `pytensor.compile.executor.Function` calls: a compiled graph tied to storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.type import DenseTensorType

from pytensor_jaxlink.link.fitting import fits
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import (
    ARRAY,
    Boundary,
    Condition,
    ConstantsAt,
    Donatable,
    Executor,
    LastRegion,
    Policy,
    Stats,
    all_hold,
    commit,
    is_one_region,
    place_for,
    ready_as,
    store,
    to_numpy,
)

if TYPE_CHECKING:
    from pytensor_jaxlink.link.compiler import CompiledGraph


class VirtualMachine:
    """Reads the inputs from their cells, runs the plan, and fills the cells of the outputs.

    Updates are outputs like others: `Function.__call__` commits them together, after everything
    has succeeded, so a failed call leaves every shared variable as it was.
    """

    need_update_inputs = True

    overwritten: tuple[int, ...]
    """The inputs into which operations in place write."""
    copied: tuple[int, ...]
    """The outputs that are no arrays and that nobody computes: the caller gets a copy."""

    def __init__(
        self,
        compiled: CompiledGraph,
        input_cells: list[list[Any]],
        output_cells: list[list[Any]],
        storage_map: dict[Variable, list[Any]],
        overwritten: tuple[int, ...],
        *,
        allow_gc: bool | None,
    ) -> None:
        self.compiled = compiled
        self.storage_map = storage_map
        self.allow_gc = True if allow_gc is None else allow_gc
        self._input_cells, self._output_cells = input_cells, output_cells
        self._arrays = [
            isinstance(v.type, DenseTensorType | ScalarType) for v in compiled.source.outputs
        ]
        self._scalars = [isinstance(v.type, ScalarType) for v in compiled.source.outputs]
        self.overwritten = overwritten
        self.copied = compiled.copied
        self._as_numpy = compiled.options.outputs == "numpy"
        self._direct: tuple[Any, ConstantsAt | None] | None = None
        self._straight: Callable[..., Any] | None = None
        self._donating: LastRegion | None = None
        self.settled: Settled = _looked_at

    def direct(
        self,
        pack: Callable[[list[Any]], Any],
        cells: list[list[Any]],
        donatable: Donatable | None,
        fit: Callable[[int, Any], Any],
    ) -> Any:
        """The function as one that JAX compiles, or as its steps; None where it needs more.

        It takes the values of the inputs without ``cells``, which hold those of the last ones, and
        gives what ``pack`` makes of the outputs, or a tuple of that and a condition, which
        ``settled`` looks at.
        """
        self._direct = self._straight = self._donating = None
        self.settled = _looked_at
        executor = self.compiled.executor
        plain = all(self._arrays) and not (self.overwritten or self.copied)
        if not plain or any(self._scalars) or not isinstance(executor, Executor):
            return None
        types = [variable.type for variable in self.compiled.source.inputs]

        def has_its_type(position: int, value: Any) -> bool:
            return fits(value, types[position])

        policy, stats = self.compiled.policy, self.compiled.stats
        boundary = Boundary(has_its_type, fit, _as_it_is if self._as_numpy else as_jax_array, pack)

        def ready(function: Callable[..., Any]) -> Callable[..., Any]:
            return _within(policy, _to_the_host(function, stats) if self._as_numpy else function)

        if donatable is not None and not self._as_numpy:  # NumPy's memory is not JAX's to reuse
            self._donating = executor.donating(boundary, donatable)
            if self._donating is not None:
                return ready(_from_list(self._donating, cells))
        found = executor.direct(has_its_type)
        if found is None:
            steps = self._straight = executor.straight(boundary)
            if steps is None:
                return None
            return ready(_with_cells(steps, cells) if cells else steps)
        traced, constants_at = found

        def packed(*values: Any) -> Any:
            outputs = traced(*values)
            return (pack(outputs[0]), outputs[1]) if type(outputs) is tuple else pack(outputs)

        repeatable = self.compiled.options.host_ops == "split"
        condition = Condition(packed, policy, repeatable=repeatable)
        function, settled = condition.compiled, condition.settled
        self._direct = function, constants_at
        if constants_at is not None or cells:
            direct = _with_others(function, cells, _constants_for(constants_at), settled)
        else:
            direct, self.settled = function, settled
        return ready(direct)

    def commit(self, values: list[Any], positions: Sequence[int]) -> None:
        """Put states among the values of a call where exported code leaves them."""
        with self.compiled.policy.here():
            commit(values, positions)

    @staticmethod
    def store(cells: Sequence[list[Any]], values: Sequence[Any]) -> None:
        """Put the new values of shared variables into their cells, when they are there.

        An error of the device shows when they are waited for, and then nothing has been stored.
        """
        pairs = zip(cells, values, strict=True)
        store(cells, [ready_as(cell[0], value) for cell, value in pairs])

    def compile_for(self, examples: list[Any], others: list[Any]) -> None:
        """Compile for arguments like the examples; the other inputs have the values given.

        `jax.jit` finds what is compiled here when it is called.
        """
        values = [
            example if isinstance(example, jax.ShapeDtypeStruct) else variable.type.filter(example)
            for example, variable in zip(examples, self.compiled.source.inputs, strict=False)
        ]
        values += others
        abstract = any(isinstance(value, jax.ShapeDtypeStruct) for value in values)
        if abstract and not is_one_region(self.compiled.plan):
            raise TypeError(
                "a function of several regions is compiled by running it: "
                f"{Remedy.GIVE_ARRAYS.text()}"
            )
        policy = self.compiled.policy
        try:
            with jax.enable_x64(True), policy.here():
                self._compile(values)
        finally:
            policy.windows.leave()

    def _compile(self, values: list[Any]) -> None:
        if self._direct is not None:
            function, constants_at = self._direct
            if constants_at is not None:
                values += constants_at(place_for(values))
            function.lower(*values).compile()
        elif self._donating is not None:
            self._donating.compile_for(values)
        elif self._straight is not None:
            self._straight(*values)
        else:
            self.compiled.executor(values)

    def __call__(self) -> list[Any]:
        """Run the function on what its input cells hold.  Returns outputs and updates."""
        outputs = self.run([cell[0] for cell in self._input_cells])
        for cell, value in zip(self._output_cells, outputs, strict=True):
            cell[0] = value
        return outputs

    def run(self, values: list[Any]) -> list[Any]:
        """Run the function on the values of its inputs, without touching any cell."""
        if self.compiled.policy.device is None:
            return self._run(values)
        with self.compiled.policy.here():
            return self._run(values)

    def _run(self, values: list[Any]) -> list[Any]:
        outputs = self.compiled.executor(values)
        if self.overwritten:
            outputs = self._overwrite(values, outputs)
        for position in self.copied:
            outputs[position] = deepcopy(outputs[position])
        # A hot loop: almost always every output is a JAX array already.
        for position, value in enumerate(outputs):
            if self._arrays[position] and (self._as_numpy or type(value) is not ARRAY):
                converted = (
                    _copied(value, self.compiled.stats) if self._as_numpy else _to_jax(value)
                )
                scalar = self._as_numpy and self._scalars[position]
                outputs[position] = converted[()] if scalar else converted
        return outputs

    def _overwrite(self, values: list[Any], outputs: list[Any]) -> list[Any]:
        """Leave in the user's arrays what operations in place leave there."""
        count = len(outputs) - len(self.overwritten)
        for position, value in zip(self.overwritten, outputs[count:], strict=True):
            given = values[position]
            if isinstance(given, np.ndarray) and given.flags.writeable:
                np.copyto(given, to_numpy(value, self.compiled.stats))
        return outputs[:count]


Constants = Callable[[Sequence[Any]], tuple[Any, ...]]
"""Gives the constants of a function where the other values of a call are."""
Settled = Callable[..., Any]
"""What a function gave, with a condition that has been looked at; see `Condition.settled`."""


def _looked_at(outputs: Any, values: Sequence[Any]) -> Any:
    """The outputs, and whether a condition holds that may have been looked at before."""
    outputs, condition = outputs
    return outputs, all_hold(condition)


def _constants_for(constants_at: ConstantsAt | None) -> Constants:
    if constants_at is None:
        return lambda values: ()
    here = constants_at(None)
    home = here[0].sharding

    def constants(values: Sequence[Any]) -> tuple[Any, ...]:
        for value in values:
            if type(value) is ARRAY and value.sharding is not home:
                return constants_at(place_for(values))
        return here

    return constants


def _with_cells(function: Callable[..., Any], cells: list[list[Any]]) -> Callable[..., Any]:
    return lambda *args: function(*args, *[cell[0] for cell in cells])


def _with_others(
    function: Callable[..., Any], cells: list[list[Any]], constants: Constants, settled: Settled
) -> Callable[..., Any]:
    """The function, which takes what the cells hold, and constants."""

    def call(*args: Any) -> Any:
        values = [*args, *[cell[0] for cell in cells]]
        others = constants(values)
        return settled(function(*values, *others), values, others)

    return call


def _within(policy: Policy, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with 64-bit types, and on the device that the linker was asked for, if any."""
    if policy.device is None and jax.config.jax_enable_x64:
        return function

    def call(*args: Any) -> Any:
        with jax.enable_x64(True), policy.here():
            return function(*args)

    return call


def _from_list(function: LastRegion, cells: list[list[Any]]) -> Callable[..., Any]:
    return lambda *args: function([*args, *[cell[0] for cell in cells]])


def _to_the_host(function: Callable[..., Any], stats: Stats) -> Callable[..., Any]:
    """The function, whose outputs become NumPy arrays."""

    def converted(outputs: Any) -> Any:
        if type(outputs) is list:
            return [_copied(value, stats) for value in outputs]
        return outputs if outputs is None else _copied(outputs, stats)

    def call(*args: Any) -> Any:
        outputs = function(*args)
        if type(outputs) is tuple:  # with a condition
            return converted(outputs[0]), outputs[1]
        return converted(outputs)

    return call


def _copied(value: Any, stats: Stats) -> np.ndarray[Any, Any]:
    return np.array(to_numpy(value, stats))  # views of JAX's arrays are read-only


def _as_it_is(value: Any) -> Any:
    return value


def as_jax_array(value: Any) -> Any:
    """An output as a `jax.Array`."""
    return value if type(value) is ARRAY else _to_jax(value)


def _to_jax(value: Any) -> Any:
    # A copy: the value may be a view of what the user gave or what a shared variable holds.  By
    # NumPy: `jax.numpy.array` would compile a program for each new shape.
    if isinstance(value, np.ndarray | np.generic):
        value = np.array(value)
    if jax.config.jax_enable_x64:
        return jax.device_put(value)
    with jax.enable_x64(True):
        return jax.device_put(value)
