"""Regions traced for open dimensions.

A region's program computes sizes by NumPy while JAX traces.  With open dimensions these sizes are
expressions (``2*n + 1``), which NumPy cannot hold; here the Ops that compute sizes, and those that
take them, are evaluated on such expressions.  What is not known here is not traced for open
dimensions: the region is then saved for the shapes that it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    ARange,
    Eye,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Argmax
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, indices_from_subtensor

from pytensor_jaxlink.analysis import InnerAnalysis
from pytensor_jaxlink.lowering.program import Instruction, Program, ProgramBuilder
from pytensor_jaxlink.lowering.rule import JaxFunction
from pytensor_jaxlink.lowering.values import as_declared, as_known, canonical_dtype
from pytensor_jaxlink.ops import Branch, WhileLoop

RuleOf = Callable[[int], Callable[..., Any]]
"""The JAX function of a node of the program's graph."""


class NotSymbolicError(Exception):
    """The program cannot be traced for open dimensions."""


def is_open(value: Any) -> bool:
    """Whether a size, or an array of sizes, depends on open dimensions."""
    if isinstance(value, np.ndarray):
        return value.dtype == object
    return jax.export.is_symbolic_dim(value)


def evaluate(
    program: Program, rule_of: RuleOf, static: Sequence[Any], arguments: Sequence[Any]
) -> tuple[tuple[Any, ...], Any]:
    """What ``program(static, *arguments)`` gives, for arguments with open dimensions.

    Raises
    ------
    NotSymbolicError
        If an Op computes with sizes in a way that is not known here.
    """

    def evaluator(known: dict[int, Any], traced: dict[int, Any]) -> Callable[[int], Any]:
        return _Evaluation(program, rule_of, known, traced).run()

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
            value_of = _Evaluation(program, self.rule, known, traced).run()
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

    def run(self) -> Callable[[int], Any]:
        """Run all instructions; gives what gives values."""
        for instruction in self.program.instructions:
            self.step(instruction)
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
            if any(map(is_open, inputs)) or _is_cut(node.op, inputs):
                self._set_traced(instruction, _with_open_sizes(node, rule, inputs))
            else:
                self._set_traced(instruction, rule(*inputs))

    def _shape(self, instruction: Instruction, node: Apply) -> None:
        """A shape is known, also where it is used as a number of the code."""
        [(number, _)] = instruction.reads
        source = self.traced[number] if number in self.traced else self._any(number)
        shape = np.shape(source)
        which = slice(None) if isinstance(node.op, Shape) else node.op.i
        self.known[instruction.writes[0]] = _array_of_sizes(shape[which])

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
            result = _size(node, [self._any(number) for number, _ in instruction.reads])
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


# -- Ops that compute sizes ------------------------------------------------------------------------


def _array_of_sizes(sizes: Any) -> np.ndarray[Any, Any]:
    """Sizes as an array of int64, or of expressions where one is open."""
    parts = sizes if isinstance(sizes, tuple | list) else [sizes]
    opened = any(map(jax.export.is_symbolic_dim, parts))
    array = np.empty(len(parts), dtype=object if opened else "int64")
    array[:] = parts
    return array if isinstance(sizes, tuple | list) else array.reshape(())


def _settled(array: Any) -> np.ndarray[Any, Any]:
    """An array of sizes as integers where no size is open."""
    array = np.asarray(array, dtype=object)
    flat = _array_of_sizes(list(array.reshape(-1)))
    return flat.reshape(array.shape)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": lambda *sizes: sum(sizes[1:], sizes[0]),
    "Sub": lambda one, other: one - other,
    "Mul": lambda *sizes: _product(sizes),
    "IntDiv": lambda one, other: one // other,
    "Mod": lambda one, other: one % other,
    "Neg": lambda size: -size,
    "Maximum": jax.core.max_dim,
    "ScalarMaximum": jax.core.max_dim,
    "Minimum": jax.core.min_dim,
    "ScalarMinimum": jax.core.min_dim,
    "EQ": lambda one, other: one == other,
    "NEQ": lambda one, other: one != other,
    "LT": lambda one, other: one < other,
    "LE": lambda one, other: one <= other,
    "GT": lambda one, other: one > other,
    "GE": lambda one, other: one >= other,
    "Switch": lambda condition, one, other: one if condition else other,
    "Identity": lambda size: size,
    "Cast": lambda size: size,
}


def _product(sizes: Sequence[Any]) -> Any:
    result = sizes[0]
    for size in sizes[1:]:
        result = result * size
    return result


def _size(node: Apply, inputs: Sequence[Any]) -> Any:  # noqa: PLR0911 -- one for each Op
    """The result of an Op on sizes, or None where it is no size."""
    op: Any = node.op
    match op:
        case Elemwise():
            function = _ARITHMETIC.get(type(op.scalar_op).__name__)
            if function is None or node.outputs[0].type.dtype not in ("int64", "bool"):
                return None
            apply = np.frompyfunc(function, len(inputs), 1)
            return _settled(apply(*(np.asarray(value, dtype=object) for value in inputs)))
        case CheckAndRaise() if not any(map(is_open, inputs[1:])) and np.all(inputs[1:]):
            return inputs[0]
        case MakeVector():
            return _settled([_item(value) for value in inputs])
        case ScalarFromTensor() | TensorFromScalar():
            return inputs[0]
        case Join():
            arrays = inputs if hasattr(op, "axis") else inputs[1:]
            return _settled(np.concatenate([np.asarray(each, dtype=object) for each in arrays]))
        case DimShuffle():
            return _dim_shuffle(op, inputs[0])
        case CAReduce() if type(op.scalar_op).__name__ in ("Mul", "Add"):
            flat = list(np.asarray(inputs[0], dtype=object).reshape(-1))
            empty = [1 if type(op.scalar_op).__name__ == "Mul" else 0]
            return _settled(_ARITHMETIC[type(op.scalar_op).__name__](*(flat or empty)))
        case Subtensor():
            index = indices_from_subtensor([_bound(value) for value in inputs[1:]], op.idx_list)
            return _settled(inputs[0][tuple(index)])
    return None


def _dim_shuffle(op: Any, value: Any) -> Any:
    array = np.asarray(value)
    kept = [axis for axis in op.new_order if axis != "x"]
    dropped = [axis for axis in range(array.ndim) if axis not in kept]
    moved = array.transpose([*kept, *dropped])
    moved = moved.reshape(moved.shape[: len(kept)])
    return np.expand_dims(moved, tuple(k for k, axis in enumerate(op.new_order) if axis == "x"))


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def _bound(value: Any) -> Any:
    return None if value is None else _item(value)


# -- Ops that take sizes ---------------------------------------------------------------------------


def _is_cut(op: Any, inputs: Sequence[Any]) -> bool:
    """Whether an entry or a part is taken of an array with open axes."""
    return isinstance(op, Subtensor | IncSubtensor) and any(
        map(jax.export.is_symbolic_dim, np.shape(inputs[0]))
    )


def _with_open_sizes(  # noqa: PLR0911 -- one for each Op
    node: Apply, rule: JaxFunction, inputs: Sequence[Any]
) -> Any:
    op: Any = node.op
    match op:
        case Scan() | WhileLoop() | Branch():
            return rule(*inputs)  # which looks at sizes no more than these rules do
        case Alloc():
            return jnp.broadcast_to(inputs[0], tuple(map(_item, inputs[1:])))
        case AllocEmpty():
            return jnp.zeros(tuple(map(_item, inputs)), canonical_dtype(op.dtype))
        case Eye():
            rows, columns, offset = map(_item, inputs)
            return jnp.eye(rows, columns, offset, dtype=canonical_dtype(op.dtype))
        case Split():
            axis = op.axis if hasattr(op, "axis") else inputs[1]  # an input before PyTensor 3.1
            return _split(inputs[0], int(axis), inputs[-1])
        case Reshape():
            return jnp.reshape(inputs[0], tuple(np.asarray(inputs[1], dtype=object).tolist()))
        case ARange() if np.issubdtype(np.dtype(op.dtype), np.integer):
            start, stop, step = map(_item, inputs)
            return jnp.arange(start, stop, step, dtype=canonical_dtype(op.dtype))
        case Subtensor():
            return inputs[0][_index(op, inputs[1:])]
        case IncSubtensor():
            place = jnp.asarray(inputs[0]).at[_index(op, inputs[2:])]
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


def _index(op: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    index = [_item(v) if isinstance(v, np.ndarray | np.generic) else v for v in values]
    return tuple(indices_from_subtensor(index, op.idx_list))
