"""A set of nodes as one JAX-traceable function: the partial evaluator.

While JAX traces, each node either is folded (NumPy computes it, from static values) or is
traced (its JAX rule is called).  Where dimensions are open (`jax.export`), static sizes are
symbolic dimensions; a folded node that cannot compute with them is traced.  Under `jax.jit` even a
`jnp` call on concrete values is staged, so a static value never touches JAX.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from pytensor.graph.type import Type
from pytensor.tensor.basic import MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.subtensor import Subtensor
from scipy.sparse import issparse

from pytensor_jaxlink.errors import FAILED_NODE, FAILED_ON_HOST, FalseConditionError
from pytensor_jaxlink.generators import generator_of_key, key_of_generator
from pytensor_jaxlink.graph import ArrayType, GraphView, user_location
from pytensor_jaxlink.lowering.barriers import barriers_of, small_barriers_of, stored
from pytensor_jaxlink.lowering.checks import (
    are_read,
    collecting,
    conjunction,
    count,
    counting,
    is_differentiable,
    is_refuted,
    refuted,
)
from pytensor_jaxlink.lowering.coercion import as_declared, as_static, mixing, of_code
from pytensor_jaxlink.lowering.host_functions import HostFunction, host_function
from pytensor_jaxlink.lowering.rule import JaxFunction
from pytensor_jaxlink.lowering.selected_gradients import (
    Again,
    selected_chains,
)
from pytensor_jaxlink.lowering.size_arithmetic import TAKES_OPEN_SIZES, passes_open_sizes
from pytensor_jaxlink.ops import held_type, may_show, result_type
from pytensor_jaxlink.size_functions import is_open
from pytensor_jaxlink.sparse_values import from_scipy, to_scipy
from pytensor_jaxlink.validity import only_where

_ARITHMETIC = (
    CAReduce,
    DimShuffle,
    Elemwise,
    MakeVector,
    ScalarFromTensor,
    Subtensor,
    TensorFromScalar,
)
_SMALL = 16  # entries


@dataclass(frozen=True, slots=True)
class Instruction:
    """One node, ready to be evaluated.

    ``reads`` pairs each input with whether it is read as a static value.
    """

    node: int
    folded: bool
    function: JaxFunction
    reads: tuple[tuple[int, bool], ...]
    writes: tuple[int, ...]


@dataclass(eq=False)
class Program:
    """The instructions of one region, in order, with the roles of its values.

    The instructions are made when they are first needed: while JAX traces.

    Attributes
    ----------
    view
        The graph.
    make_instructions
        Makes the instructions.
    rule
        Gives the function of a node.
    static, arguments, results
        The values that it takes as Python's, as arrays, and gives.
    entries
        How many the last evaluation has computed.
    """

    view: GraphView
    make_instructions: Callable[[], Sequence[Instruction]]
    rule: Callable[[int], JaxFunction]
    static: Sequence[int]
    arguments: Sequence[int]
    results: Sequence[int]
    entries: int = 0
    _on_host: dict[int, HostFunction] = field(default_factory=dict[int, HostFunction])

    @cached_property
    def types(self) -> list[Type]:
        """The types of the values."""
        return list(map(held_type, self.view.variables))

    @cached_property
    def result_types(self) -> list[Type]:
        """The types of the results."""
        updates = self.view.updates
        return [
            result_type(self.view.variables[number], stored=number in updates)
            for number in self.results
        ]

    @cached_property
    def ranks(self) -> tuple[int | None, ...]:
        """How many dimensions the arguments have, as their Ops declare; None of what is no array.

        Some `perform` methods give another number (`lstsq` with a vector).  PyTensor goes on with
        what it has, and so does the region, on the host.
        """
        kinds = [self.types[number] for number in self.arguments]
        return tuple(kind.ndim if isinstance(kind, ArrayType) else None for kind in kinds)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions, in topological order."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTensor's rules warn when they are looked up
            return tuple(self.make_instructions())

    @cached_property
    def chains(self) -> dict[int, tuple[Instruction, ...]]:
        """The operations whose entries are replaced in the end, by the node that does."""
        return selected_chains(self.view.nodes, self.instructions)

    @cached_property
    def small_barriers(self) -> frozenset[int]:
        """The values that XLA must not compute entry by entry, if they are small."""
        return small_barriers_of(self.view, (i.node for i in self.instructions if not i.folded))

    @cached_property
    def barriers(self) -> frozenset[int]:
        """The values that XLA must not compute twice."""
        return barriers_of(self.view, (i.node for i in self.instructions if not i.folded))

    def __call__(self, static: Sequence[object], *arguments: object) -> tuple[tuple[Any, ...], Any]:
        """Evaluate, tracing or not.  Returns the results, and the conditions as () or (bool,)."""
        static_values = {
            number: as_static(value, self.types[number])
            for number, value in zip(self.static, static, strict=True)
        }
        traced = {
            number: as_declared(value, self.types[number])
            for number, value in zip(self.arguments, arguments, strict=True)
        }
        with mixing(), collecting() as conditions, counting() as work:
            self.evaluate(static_values, traced, self.barriers)
            results = tuple(
                self.result(number, static_values, traced, kind)
                for number, kind in zip(self.results, self.result_types, strict=True)
            )
            count(value for number, value in traced.items() if number not in self.arguments)
            self.entries = work.entries
            holds = conjunction(conditions)
        if holds and not are_read():
            return only_where(holds[0], results), ()
        return results, holds

    def on_host(self, static: Sequence[object], *arguments: object) -> tuple[tuple[Any, ...], Any]:
        """The same results without JAX, by PyTensor's own implementation of each node."""
        values = dict(zip(self.static, static, strict=True))
        for number, value in zip(self.arguments, arguments, strict=True):
            values[number] = self._of_host(number, value)
        values |= {number: as_static(value, self.types[number]) for number, value in values.items()}

        def value_of(number: int) -> Any:
            return values[number] if number in values else self.view.constants[number]

        for instruction in self.instructions:
            # Of a node with several outputs some may be arguments, and it computes the others.
            if all(number in values for number in instruction.writes):
                continue
            function = self.host_function(instruction.node)
            try:
                outputs = function(*(value_of(number) for number, _ in instruction.reads))
            except Exception as error:
                setattr(error, FAILED_ON_HOST, True)
                if may_show(self.view.nodes[instruction.node].op):
                    raise  # an Op of the user's does not run again
                # A check of a rewrite may have raised it, and then the call has a value.
                raise FalseConditionError from error
            # Some `perform` methods give another dtype than they declare; a region never does.
            found = {
                number: as_declared(output, self.types[number])
                for number, output in zip(instruction.writes, outputs, strict=True)
            }
            values = found | values
        return tuple(map(as_declared, map(value_of, self.results), self.result_types)), ()

    def _of_host(self, number: int, value: object) -> Any:
        """An argument of a region as PyTensor's own implementations take it."""
        if isinstance(self.view.variables[number].type, RandomType):
            return generator_of_key(value)
        return to_scipy(value)

    def host_function(self, node: int) -> HostFunction:
        """PyTensor's own implementation of a node."""
        if node not in self._on_host:
            self._on_host[node] = host_function(self.view.nodes[node])
        return self._on_host[node]

    def is_small_and_static(self, node: int, inputs: Sequence[object]) -> bool:
        """Return True if NumPy should compute a node: nothing of it depends on a tracer.

        Arithmetic on lengths is so, and the conditions on them, which are then checked here and not
        in each call.
        """
        return isinstance(self.view.nodes[node].op, _ARITHMETIC) and all(
            isinstance(value, np.ndarray | np.generic)
            and value.size <= _SMALL
            and value.dtype != object  # an open size
            for value in inputs
        )

    def evaluate(
        self,
        static: dict[int, object],
        traced: dict[int, object],
        barriers: Collection[int] = frozenset(),
        largest: float = np.inf,
    ) -> None:
        """Run all instructions, adding to the two environments.

        Of ``barriers`` those are put up whose values have at most ``largest`` entries.
        """
        chains = self.chains if is_differentiable() else {}
        known = self._again(static, traced) if chains else None
        for instruction in self.instructions:
            try:
                if known is not None and instruction.node in chains:
                    self._run_selection(instruction, static, traced, known)
                else:
                    self._run(instruction, static, traced)
            except Exception as error:
                self._locate(error, instruction.node)
                raise
            for number in instruction.writes if barriers and not instruction.folded else ():
                if number in barriers and _has_at_most(traced[number], largest):
                    traced[number] = stored(traced[number])

    def _again(self, static: dict[int, object], traced: dict[int, object]) -> Again:
        return Again(
            self.view.nodes,
            lambda number: self._traced(number, static, traced),
            lambda each, read: self._run(each, static, cast("dict[int, object]", read)),
        )

    def _run_selection(
        self,
        instruction: Instruction,
        static: dict[int, object],
        traced: dict[int, object],
        known: Again,
    ) -> None:
        """Run a node that reads a selection, of which the rest leaves no trace in a derivative."""
        entries, again = known.entries_of(instruction, self.chains[instruction.node])
        as_they_are, traced[entries] = traced[entries], again
        self._run(instruction, static, traced)
        traced[entries] = as_they_are

    def _run(
        self, instruction: Instruction, static: dict[int, object], traced: dict[int, object]
    ) -> None:
        if instruction.folded:
            outputs = self._folded(instruction, static, traced)
            if outputs is not None:
                for number, output in zip(instruction.writes, outputs, strict=True):
                    static[number] = as_static(output, self.types[number])
                return
            inputs = [self._traced(number, static, traced) for number, _ in instruction.reads]
            function = self.rule(instruction.node)
        else:
            inputs = [
                self._static_input(number, instruction, static)
                if as_value
                else self._traced(number, static, traced)
                for number, as_value in instruction.reads
            ]
            function = instruction.function
            if self.is_small_and_static(instruction.node, inputs):
                function = self.host_function(instruction.node)
        outputs = function(*inputs)
        if len(instruction.writes) == 1 and not isinstance(outputs, tuple | list):
            outputs = (outputs,)
        for number, output in zip(instruction.writes, outputs, strict=True):
            kind = self.types[number]
            traced[number] = as_declared(of_code(output, kind), kind)

    def _folded(
        self, instruction: Instruction, static: dict[int, object], traced: dict[int, object]
    ) -> Sequence[Any] | None:
        """The outputs of a folded node, or None where the code has to compute them."""
        inputs = []
        for number, as_value in instruction.reads:
            if not as_value and number in traced:
                inputs.append(_in_the_shape_of(traced[number]))
            elif number in static or number in self.view.constants:
                inputs.append(self._static_value(number, static))
            else:  # a size before it depends on open ones, and is a number of the code
                return None
        if not any(map(is_open, inputs)):
            return instruction.function(*inputs)
        if not passes_open_sizes(self.view.nodes[instruction.node]):
            return None
        try:
            return instruction.function(*inputs)
        except TypeError:
            return None  # no size any more

    def _static_input(
        self, number: int, instruction: Instruction, static: dict[int, object]
    ) -> Any:
        """A value that a rule needs while JAX traces."""
        if number not in static and number not in self.view.constants:
            raise TypeError("a size that the code computes when it runs")
        value = self._static_value(number, static)
        op = self.view.nodes[instruction.node].op
        if is_open(value) and not isinstance(op, TAKES_OPEN_SIZES):
            raise TypeError(f"{op} takes a size that is open")
        return value

    def _static_value(self, number: int, static: dict[int, object]) -> Any:
        if number in static:
            return static[number]
        return as_static(self.view.constants[number], self.view.variables[number].type)

    def _traced(self, number: int, static: dict[int, object], traced: dict[int, object]) -> Any:
        if number in traced:
            value = traced[number]
        else:
            kind = self.view.variables[number].type
            value = traced[number] = of_code(self._static_value(number, static), kind)
        if isinstance(value, np.random.Generator):
            value = traced[number] = key_of_generator(value)
        elif issparse(value):
            value = traced[number] = from_scipy(value)
        return value

    def result(
        self, number: int, static: dict[int, object], traced: dict[int, object], kind: Type
    ) -> Any:
        """A result, in a type."""
        value = traced[number] if number in traced else self._traced(number, static, traced)
        return as_declared(value, kind)

    def _locate(self, error: Exception, node: int) -> None:
        """Tell the innermost node that failed."""
        if not hasattr(error, FAILED_NODE):
            error.add_note(
                f"while evaluating {self.view.operation_of(node)}, written at "
                f"{user_location(self.view, node)}"
            )
            setattr(error, FAILED_NODE, self.view.nodes[node])
            if is_refuted():
                refuted(error)


def _in_the_shape_of(value: Any) -> Any:
    """An array of NumPy in the place of one that is traced, for nodes that read its shape alone."""
    shape = np.shape(value)
    if any(map(is_open, shape)):
        return value
    return np.broadcast_to(np.zeros((), value.dtype), shape)


def _has_at_most(value: Any, largest: float) -> bool:
    """Return True if a value surely has at most so many entries."""
    size = np.size(value)
    return largest == np.inf or (not is_open(size) and size <= largest)
