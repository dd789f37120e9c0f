"""Regions traced for open dimensions.

A region's program computes sizes by NumPy while JAX traces.  With open dimensions these sizes are
expressions (``2*n + 1``), which NumPy cannot hold; here the Ops that compute sizes, and those that
take them, are evaluated on such expressions.  What is not known here is not traced for open
dimensions: the region is then saved for the shapes that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.scan.op import Scan
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    ARange,
    Eye,
    Split,
)
from pytensor.tensor.math import Argmax
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, indices_from_subtensor

from pytensor_jaxlink.analysis import InnerAnalysis
from pytensor_jaxlink.artifact.exporting.sizes import array_of_sizes, is_open, item, size_of
from pytensor_jaxlink.lowering.fences import SMALL
from pytensor_jaxlink.lowering.program import Instruction, Program, ProgramBuilder
from pytensor_jaxlink.lowering.rule import JaxFunction
from pytensor_jaxlink.lowering.values import as_declared, as_known, canonical_dtype
from pytensor_jaxlink.ops import Branch, WhileLoop

RuleOf = Callable[[int], Callable[..., Any]]
"""The JAX function of a node of the program's graph."""


class NotSymbolicError(Exception):
    """The program cannot be traced for open dimensions."""


def evaluate(
    program: Program, rule_of: RuleOf, static: Sequence[Any], *arguments: Any
) -> tuple[tuple[Any, ...], Any]:
    """What ``program(static, *arguments, fences=True)`` gives, for arguments with open dimensions.

    Raises
    ------
    NotSymbolicError
        If an Op computes with sizes in a way that is not known here.
    """

    def evaluator(known: dict[int, Any], traced: dict[int, Any]) -> Callable[[int], Any]:
        return _Evaluation(program, rule_of, known, traced).run(program.fences)

    return program.run_by(evaluator, static, arguments)


class SymbolicBuilder(ProgramBuilder):
    """Makes rules whose inner graphs (of loops, branches and others) too are evaluated here."""

    @classmethod
    def like(cls, other: ProgramBuilder) -> SymbolicBuilder:
        """One for the graph of another."""
        return cls(other.view, other.facts, other.rules, checks=other.checks)

    def inner_function(self, program: Program, inner: InnerAnalysis) -> JaxFunction:
        """The function of an inner graph."""
        view = program.view

        def function(*inputs: Any) -> list[Any]:
            known = {
                number: _known(inputs[position], view.variables[number].type)
                for position, number in enumerate(view.inputs)
                if position in inner.demanded
            }
            traced = {
                number: value
                for number, value in zip(view.inputs, inputs, strict=True)
                if not is_open(value)
            }
            evaluation = _Evaluation(program, self.rule, known, traced)
            value_of = evaluation.run(program.small_fences, SMALL)
            return list(map(value_of, view.outputs))

        return function


def _known(value: Any, kind: Any) -> Any:
    return value if is_open(value) else as_known(value, kind)


class _Evaluation:
    """One evaluation of a program."""

    def __init__(
        self, program: Program, rule_of: RuleOf, known: dict[int, Any], traced: dict[int, Any]
    ) -> None:
        self.program, self.rule_of, self.known, self.traced = program, rule_of, known, traced

    def run(self, fences: Collection[int], largest: float | None = None) -> Callable[[int], Any]:
        """Run all instructions, with fences as in `Program.evaluate`; gives what gives values.

        The code is to be that of given shapes as far as it can be: then the bits are the same.
        """
        for instruction in self.program.instructions:
            self.step(instruction)
            for number in () if instruction.folded else instruction.writes:
                if number in fences and _is_small(self.traced[number], largest):
                    self.traced[number] = jax.lax.optimization_barrier(self.traced[number])
        return self.as_traced

    def step(self, instruction: Instruction) -> None:
        """Run one instruction."""
        node = self.program.view.nodes[instruction.node]
        opened = [
            number in self.known and is_open(self.known[number]) for number, _ in instruction.reads
        ]
        if isinstance(node.op, Shape | Shape_i):
            self._shape(instruction, node)
        elif instruction.folded:
            self._fold(instruction, node, any(opened))
        elif isinstance(node.op, Argmax):
            self._set_traced(instruction, _argmax(node.op, *self._inputs(instruction)))
        else:
            rule, inputs = self.rule_of(instruction.node), self._inputs(instruction)
            if any(map(is_open, inputs)):
                self._set_traced(instruction, _with_open_sizes(node, rule, inputs))
            elif self.program.is_small_and_known(instruction.node, inputs):
                function = self.program.host_function(instruction.node)
                self._set_traced(instruction, function(*inputs))
            else:
                self._set_traced(instruction, rule(*inputs))

    def _shape(self, instruction: Instruction, node: Apply) -> None:
        """A shape is known, also where it is used as a number of the code."""
        [(number, _)] = instruction.reads
        source = self.traced[number] if number in self.traced else self._any(number)
        shape = np.shape(source)
        which = slice(None) if isinstance(node.op, Shape) else node.op.i
        self.known[instruction.writes[0]] = array_of_sizes(shape[which])

    def _fold(self, instruction: Instruction, node: Apply, opened: bool) -> None:
        if not opened:
            missing = [number for number, _ in instruction.reads if not self._has(number)]
            if missing:  # an earlier size became a traced value
                self._set_traced(instruction, self._by_rule(instruction))
                return
            outputs = instruction.function(*self._inputs(instruction))
            for number, output in zip(instruction.writes, outputs, strict=True):
                self.known[number] = as_known(output, self.program.view.variables[number].type)
        else:
            result = size_of(node, [self._any(number) for number, _ in instruction.reads])
            if result is None:  # no size any more: a number that is computed when the code runs
                self._set_traced(instruction, self._by_rule(instruction))
            else:
                self.known[instruction.writes[0]] = result

    def _by_rule(self, instruction: Instruction) -> Any:
        inputs = [self.as_traced(number) for number, _ in instruction.reads]
        return self.rule_of(instruction.node)(*inputs)

    def _has(self, number: int) -> bool:
        return number in self.known or number in self.program.view.constants

    def _any(self, number: int) -> Any:
        if number in self.known:
            return self.known[number]
        if number in self.program.view.constants:
            return self.program._known(number, self.known)
        raise NotSymbolicError("a size that the code computes when it runs")

    def _inputs(self, instruction: Instruction) -> list[Any]:
        return [
            self._any(number) if as_value else self.as_traced(number)
            for number, as_value in instruction.reads
        ]

    def as_traced(self, number: int) -> Any:
        """A value as an array of the code."""
        if number not in self.traced and number in self.known and is_open(self.known[number]):
            dtype = canonical_dtype(self.program.view.variables[number].type.dtype)
            sizes = np.asarray(self.known[number], dtype=object)
            parts = [jnp.asarray(size, dtype=dtype) for size in sizes.reshape(-1)]
            self.traced[number] = jnp.stack(parts).reshape(sizes.shape)
        return self.program._traced(number, self.known, self.traced)

    def _set_traced(self, instruction: Instruction, outputs: Any) -> None:
        variables = self.program.view.variables
        if len(instruction.writes) == 1 and not isinstance(outputs, tuple | list):
            outputs = (outputs,)
        for number, output in zip(instruction.writes, outputs, strict=True):
            self.traced[number] = as_declared(output, variables[number].type)


def _is_small(value: Any, largest: float | None) -> bool:
    """Whether a value has at most so many entries; who knows of an open number?"""
    return largest is None or (not is_open(np.size(value)) and np.size(value) <= largest)


# -- Ops that take sizes ---------------------------------------------------------------------------


def _with_open_sizes(  # noqa: PLR0911 -- one for each Op
    node: Apply, rule: JaxFunction, inputs: Sequence[Any]
) -> Any:
    op: Any = node.op
    match op:
        case Scan() | WhileLoop() | Branch():
            return rule(*inputs)  # which looks at sizes no more than these rules do
        case Alloc():
            return jnp.broadcast_to(inputs[0], tuple(map(item, inputs[1:])))
        case AllocEmpty():
            return jnp.zeros(tuple(map(item, inputs)), canonical_dtype(op.dtype))
        case Eye():
            rows, columns, offset = map(item, inputs)
            return jnp.eye(rows, columns, offset, dtype=canonical_dtype(op.dtype))
        case Split():
            axis = op.axis if hasattr(op, "axis") else inputs[1]  # an input before PyTensor 3.1
            return _split(inputs[0], int(axis), inputs[-1])
        case Reshape():
            return jnp.reshape(inputs[0], tuple(np.asarray(inputs[1], dtype=object).tolist()))
        case ARange() if np.issubdtype(np.dtype(op.dtype), np.integer):
            start, stop, step = map(item, inputs)
            return jnp.arange(start, stop, step, dtype=canonical_dtype(op.dtype))
        case Subtensor():
            return inputs[0][_index(op, np.shape(inputs[0]), inputs[1:])]
        case IncSubtensor():
            place = jnp.asarray(inputs[0]).at[_index(op, np.shape(inputs[0]), inputs[2:])]
            return (place.set if op.set_instead_of_inc else place.add)(inputs[1])
    raise NotSymbolicError(f"{op} takes a size that is open")


def _split(array: Any, axis: int, lengths: Any) -> list[Any]:
    parts, start = [], 0
    for length in lengths.tolist():
        parts.append(jax.lax.slice_in_dim(array, start, start + length, axis=axis))
        start = start + length
    return parts


def _argmax(op: Any, array: Any) -> Any:
    """As PyTensor's rule has it, whose product of lengths must be a number."""
    axes = tuple(range(array.ndim)) if op.axis is None else tuple(op.axis)
    kept = tuple(axis for axis in range(array.ndim) if axis not in axes)
    moved = jnp.transpose(array, (*kept, *axes))
    flat = jnp.reshape(moved, (*(array.shape[axis] for axis in kept), -1))
    return jnp.argmax(flat, axis=-1).astype("int64")


def _index(op: Any, shape: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """The index of a part.  Entries are looked at here: JAX does not say what is out of range."""
    index = [item(v) if isinstance(v, np.ndarray | np.generic) else v for v in values]
    entries = tuple(indices_from_subtensor(index, op.idx_list))
    for entry, length in zip(entries, shape, strict=False):
        if isinstance(entry, slice):
            continue
        if isinstance(entry, jax.core.Tracer) or not -length <= entry < length:
            raise NotSymbolicError("an index beside a size that is open")
    return entries
