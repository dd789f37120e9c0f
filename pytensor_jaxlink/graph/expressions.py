"""Short expressions for values and operations, in the notation of the user's code.

``exp(x)``, ``x[mask]``, ``(n // 2)``: every message that names a value names it by one of these.
A text is at most `LONGEST` characters long; what does not fit is an ellipsis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, FromFunctionOp, ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import ScalarOp
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

LONGEST = 60
"""The characters of an expression."""

MOST_OPERANDS = 4
"""Those that are shown of one operation."""

_DEEPEST, _MOST_PARTS = 8, 60
_ELLIPSIS = "..."

Text = Callable[[Variable], str]
"""Writes an operand."""

_INFIX = {
    "Add": "+",
    "Mul": "*",
    "Sub": "-",
    "TrueDiv": "/",
    "IntDiv": "//",
    "Mod": "%",
    "Pow": "**",
    "LT": "<",
    "GT": ">",
    "LE": "<=",
    "GE": ">=",
    "EQ": "==",
    "NEQ": "!=",
    "AND": "&",
    "OR": "|",
    "XOR": "^",
}
_TRANSPARENT = ("TensorFromXTensor", "XTensorFromTensor", "Rename", "Shaped")
_NAMED_BY_PYTENSOR = ("argmax", "mean", "std", "var")
_CONDITION = re.compile("[<>=]")
_PREFIX = {"Neg": "-", "Invert": "~"}
# Names of classes that users never wrote.
_RENAMED = {
    "Switch": "where",
    "ScalarMaximum": "maximum",
    "ScalarMinimum": "minimum",
    "Second": "full_like",
    "SortOp": "sort",
    "ArgSortOp": "argsort",
    "ARange": "arange",
    "Branch": "ifelse",
    "WhileLoop": "scan",
    "SVD": "svd",
    "QR": "qr",
}


class _TooLongError(Exception):
    """An expression has too many parts."""


def expression(variable: Variable, inputs: Mapping[Variable, int], *, named: bool = True) -> str:
    """A variable as its name, or as the longest expression that fits.

    Parameters
    ----------
    variable
        The variable.
    inputs
        The position of each input of its graph, for inputs without a name.
    named
        Whether the name of the variable itself will do.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> x, n = pt.vector("x"), pt.lscalar("n")
    >>> expression(pt.exp(x[: n // 2]), {})
    'exp(x[:n // 2])'
    """
    found = ""
    for depth in range(1, _DEEPEST):
        writer = _Formatter(inputs, depth)
        try:
            text = writer.write(variable) if named else writer.operation(variable)
        except _TooLongError:
            break
        if found and len(text) > LONGEST:
            break
        found = text
        if _ELLIPSIS not in text:
            break
    whole = len(found) <= LONGEST or (named and found == variable.name)
    return found if whole else f"{found[: LONGEST - len(_ELLIPSIS)]}{_ELLIPSIS}"


class _Formatter:
    """Formats variables down to a depth."""

    def __init__(self, inputs: Mapping[Variable, int], depth: int) -> None:
        self._inputs, self._depth, self._parts = inputs, depth, 0

    def write(self, variable: Variable) -> str:
        """The text of a variable."""
        name = given_name(variable)
        if name is not None:
            return name
        if isinstance(variable, Constant):
            return _constant(variable)
        if variable.owner is None or variable in self._inputs:
            return f"input {self._inputs[variable]}" if variable in self._inputs else str(variable)
        return self._computed(variable)

    def operation(self, variable: Variable) -> str:
        """The text of the operation that computes a variable, whatever the name of its result.

        Checks are shown here, and nowhere else: they are what it is about.
        """
        node: Any = variable.owner
        if node is not None and isinstance(node.op, CheckAndRaise | SpecifyShape):
            self._depth -= 1
            return _call(op_name(node.op), node.inputs, self.write)
        return self._computed(variable)

    def _computed(self, variable: Variable) -> str:
        node: Any = variable.owner
        if node is None:
            return self.write(variable)
        if self._depth == 0:
            return _ELLIPSIS
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _TooLongError
        self._depth -= 1
        text = written(node.op, node, self.write)
        self._depth += 1
        several = len(node.outputs) > 1 and not isinstance(node.op, RandomVariable)
        return f"{text}[{node.outputs.index(variable)}]" if several else text


def given_name(variable: Variable) -> str | None:
    """The name that the user gave a variable, or None.

    PyTensor names some results of its own, and PyMC names a density after the condition of its
    parameters, ``"sigma > 0"``.
    """
    name = variable.name
    if not name:
        return None
    computed = variable.owner is not None
    if computed and (name in _NAMED_BY_PYTENSOR or _CONDITION.search(str(name))):
        return None
    return str(name)


def op_name(op: Op) -> str:
    """The name of an operation: the user's function or class, or PyTensor's function.

    Examples
    --------
    >>> from pytensor.tensor.linalg import Cholesky, MatrixInverse
    >>> op_name(MatrixInverse()), op_name(Cholesky())
    ('matrix_inverse', 'cholesky')
    """
    if isinstance(op, FromFunctionOp):
        return re.sub(r"^FromFunctionOp\{(.*)\}$", r"\1", str(op))
    if isinstance(op, Elemwise):
        return op_name(op.scalar_op)
    if isinstance(op, Blockwise):
        return op_name(op.core_op)
    named = isinstance(op, RandomVariable | OpFromGraph | Scan | ScalarOp)
    if named and getattr(op, "name", None) and type(op).__name__ not in _RENAMED:
        return str(op.name)
    kind = type(op)
    if not kind.__module__.split(".")[0].startswith("pytensor"):
        return kind.__name__
    if kind.__name__ in _RENAMED:
        return _RENAMED[kind.__name__]
    if isinstance(op, ScalarOp):
        return kind.__name__.lower()
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


@singledispatch
def written(op: Op, node: Apply, text: Text) -> str:
    """The text of an operation; ``text`` writes its operands.  The default is a call."""
    if type(op).__name__ in _TRANSPARENT:
        return text(node.inputs[0])
    return _call(op_name(op), node.inputs, text)


def _call(name: str, operands: Sequence[Variable], text: Text, *more: str) -> str:
    return f"{name}({', '.join((*_some(operands, text), *more))})"


def _some(operands: Sequence[Variable], text: Text) -> list[str]:
    """The texts of the first operands, and an ellipsis for the rest."""
    shown = [without_parentheses(text(operand)) for operand in operands[:MOST_OPERANDS]]
    return [*shown, _ELLIPSIS] if len(operands) > MOST_OPERANDS else shown


def without_parentheses(text: str) -> str:
    """A text without the parentheses around all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


def _constant(constant: Constant) -> str:
    data: Any = constant.data
    array = data if isinstance(data, np.ndarray | np.generic) else None
    if array is None:
        return str(data) if isinstance(data, int | float | bool | type(None)) else str(constant)
    if array.size == 1:
        return _number(array.item())
    if array.ndim == 1 and 0 < array.size <= MOST_OPERANDS:
        return f"[{', '.join(map(_number, array.tolist()))}]"
    return f"a constant {array.dtype}{list(array.shape)}"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@written.register(Elemwise)
def _elementwise(op: Elemwise, node: Apply, text: Text) -> str:
    return _scalar(op.scalar_op, node, text)


@written.register(ScalarOp)
def _scalar(op: ScalarOp, node: Apply, text: Text) -> str:
    kind = type(op).__name__
    if kind in _INFIX:
        operands = [text(operand) for operand in node.inputs[:MOST_OPERANDS]]
        operands += [_ELLIPSIS] * (len(node.inputs) > MOST_OPERANDS)
        return f"({f' {_INFIX[kind]} '.join(operands)})"
    if kind in _PREFIX:
        return f"{_PREFIX[kind]}{text(node.inputs[0])}"
    if kind == "Sqr":
        return f"({text(node.inputs[0])} ** 2)"
    if kind == "Reciprocal":
        return f"(1 / {text(node.inputs[0])})"
    if kind == "Cast":
        return _cast(node, text)
    return _call(op_name(op), node.inputs, text)


def _cast(node: Apply, text: Text) -> str:
    """A conversion, where it changes more than the width of numbers."""
    old, new = (np.dtype(variable.type.dtype) for variable in (node.inputs[0], node.outputs[0]))
    if old.kind == new.kind or (old.kind, new.kind) in (("i", "f"), ("u", "i"), ("u", "f")):
        return text(node.inputs[0])
    return _call(str(new), node.inputs, text)


@written.register(Blockwise)
def _of_a_batch(op: Blockwise, node: Apply, text: Text) -> str:
    return written(op.core_op, node, text)


@written.register(CheckAndRaise)
@written.register(DeepCopyOp)
@written.register(ScalarFromTensor)
@written.register(SpecifyShape)
@written.register(TensorFromScalar)
@written.register(ViewOp)
def _first(op: Op, node: Apply, text: Text) -> str:
    return text(node.inputs[0])


@written.register(Scan)
def _loop(op: Scan, node: Apply, text: Text) -> str:
    arrays = [v for v in node.inputs[1:] if getattr(v.type, "ndim", 1)]  # not the lengths
    return _call(op_name(op).replace("scan_fn", "scan"), arrays, text)


@written.register(DimShuffle)
def _axes(op: DimShuffle, node: Apply, text: Text) -> str:
    order = [axis for axis in op.new_order if axis != "x"]
    return text(node.inputs[0]) if order == sorted(order) else _call("transpose", node.inputs, text)


@written.register(CAReduce)
def _reduction(op: CAReduce, node: Apply, text: Text) -> str:
    name = {"Add": "sum", "Mul": "prod", "AND": "all", "OR": "any"}.get(type(op.scalar_op).__name__)
    return _along(name or op_name(op), op, node, text)


@written.register(Argmax)
def _place_of_largest(op: Argmax, node: Apply, text: Text) -> str:
    return _along("argmax", op, node, text)


def _along(name: str, op: Any, node: Apply, text: Text) -> str:
    axis, ndim = op.axis, node.inputs[0].type.ndim
    if axis is None or len(axis) == ndim:
        return _call(name, node.inputs, text)
    return _call(name, node.inputs, text, f"axis={axis[0] if len(axis) == 1 else tuple(axis)}")


@written.register(CumOp)
def _running(op: CumOp, node: Apply, text: Text) -> str:
    return _call({"add": "cumsum", "mul": "cumprod"}[op.mode], node.inputs, text)


@written.register(Dot)
def _product(op: Dot, node: Apply, text: Text) -> str:
    return f"({text(node.inputs[0])} @ {text(node.inputs[1])})"


@written.register(Shape)
def _shape(op: Shape, node: Apply, text: Text) -> str:
    return f"{text(node.inputs[0])}.shape"


@written.register(Shape_i)
def _length(op: Shape_i, node: Apply, text: Text) -> str:
    return f"{text(node.inputs[0])}.shape[{op.i}]"


@written.register(Reshape)
def _reshaped(op: Reshape, node: Apply, text: Text) -> str:
    return f"{text(node.inputs[0])}.reshape({without_parentheses(text(node.inputs[1]))})"


@written.register(MakeVector)
def _vector(op: MakeVector, node: Apply, text: Text) -> str:
    return f"[{', '.join(_some(node.inputs, text))}]"


@written.register(Join)
def _joined(op: Join, node: Apply, text: Text) -> str:
    arrays = node.inputs if hasattr(op, "axis") else node.inputs[1:]  # until PyTensor 3.1
    return f"concatenate([{', '.join(_some(arrays, text))}])"


@written.register(Alloc)
def _filled(op: Alloc, node: Apply, text: Text) -> str:
    value, *lengths = node.inputs
    shown = _some(lengths, text)
    shape = f"({', '.join(shown)})" if len(shown) > 1 else "".join(shown)
    return f"full({shape}, {without_parentheses(text(value))})"


@written.register(RandomVariable)
def _draws(op: RandomVariable, node: Apply, text: Text) -> str:
    return _call(op_name(op), node.inputs[2:], text)
