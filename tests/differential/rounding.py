"""Whether a difference is one of rounding: the Python linker, with noise in the last digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from pytensor.compile.mode import Mode
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors
from pytensor.link.basic import PerformLinker, WrapLinker
from pytensor.scalar.basic import Add, Cast, Composite, Maximum, Minimum, Sub
from pytensor.scan.op import Scan
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import Unique
from pytensor.tensor.math import Dot, Max, Min
from pytensor.tensor.signal.conv import Convolve1d
from pytensor.tensor.sort import SortOp
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor

from pytensor_jaxlink.lowering.scalars import comparisons
from pytensor_jaxlink.ops import is_zero

ROUNDING = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}
"""What rounding may change, relative to a value, by the narrowest type that it passed through."""

RUNS = 16
FACTOR = 64
"""How much larger than the noise a difference may be."""
SIGNS = (None, -1.0, 1.0, None, None, None)
"""The signs of zeros in the runs, None for drawn ones: a sum is -0.0 only where all its parts are.

A product of a zero and a number has a sign that one of its parts needs and another may not have.
"""
LARGE = 1e-2
"""The differences, relative to the largest entry, that noise in whole numbers may explain."""
SMALL = 1e-2
"""The differences that it may explain beside entries that are all zero, in roots of epsilon."""


def noisy_mode(mode: Mode) -> tuple[Mode, Callable[[int, bool | None], None]]:
    """A mode that changes the last digits of each value of floating point, and open signs of zero.

    Each node that reads a value gets other digits: XLA computes a value again where it is read, and
    may round a product in one place and not in the other.  Of a sum these are the digits of its
    terms, so that `x - x` is no zero.  Linear algebra is computed once.

    Returns
    -------
    mode, seed
        ``seed`` is called before a run, with a number and whether whole numbers change too: they
        are mostly exact, and noise in them would let every rounding down differ.  None is for
        signs of zero alone: numbers that are equal stay equal.
    """
    state: dict[str, Any] = {}

    def seed(number: int, whole: bool | None) -> None:
        sign = SIGNS[(number if whole is None else number // 2) % len(SIGNS)]
        state.update(rng=np.random.default_rng(number), whole=whole, sign=sign)
        state.update(errors={}, solved=set())

    def step(fgraph: Any, index: int, node: Any, *thunks: Any) -> None:
        change = _change(node, whole=state["whole"])
        in_double = _adds_products(node) and state["whole"] is False
        for thunk in thunks:
            given = [cell[0] for cell in thunk.inputs]
            for cell in thunk.inputs:
                cell[0] = _as_read(cell, in_double=in_double, **state)
            terms = [cell[0] for cell in thunk.inputs]
            open_signs = _leaves_signs_open(node) or _adds_zeros(
                node, [cell[0] for cell in thunk.inputs]
            )
            _evaluate(thunk, node, state)
            for cell, value in zip(thunk.inputs, given, strict=True):
                cell[0] = value
            is_sum = isinstance(getattr(node.op, "scalar_op", None), Add | Sub)
            if is_sum and state["whole"] is not None:
                [made] = thunk.outputs
                state["errors"][id(made)] = made, _errors(terms, whole=state["whole"])
            for cell in thunk.outputs:
                if isinstance(cell[0], np.ndarray | np.generic):
                    cell[0] = change(np.asarray(cell[0]), state["rng"])
                    if open_signs:
                        cell[0] = with_other_signs(cell[0], state["sign"], state["rng"])

    seed(0, False)
    linker = WrapLinker([PerformLinker()], step)
    return Mode(linker=linker, optimizer=mode.provided_optimizer), seed


def _change(node: Any, *, whole: bool | None) -> Callable[..., Any]:
    """How the results of a node are changed."""
    if _solves(node) and whole is not None:
        return spread
    change = partial(nudged, whole=whole)
    if not _adds_products(node):
        return change
    dtype = node.outputs[0].type.dtype
    return lambda value, rng: change(np.asarray(value, dtype), rng)


def _evaluate(thunk: Any, node: Any, state: Any) -> None:
    """Evaluate a node; in some runs a number that is out of range is converted as XLA does it.

    C leaves open what becomes of it; XLA converts to a signed integer first.  In some a product of
    matrices is the sum of products that have been rounded, and may have overflowed.
    """
    thunk()
    if _solves(node):
        state["solved"].update(map(id, thunk.outputs))
    if state["whole"] is None and isinstance(node.op, Dot):
        [made], given = thunk.outputs, [cell[0] for cell in thunk.inputs]
        if all(array.ndim == 2 for array in given) and not np.isfinite(made[0]).all():
            one, other = given
            made[0] = (one[:, :, None] * other).sum(axis=1, dtype=made[0].dtype)
    dtype = getattr(node.outputs[0].type, "dtype", None)
    is_cast = isinstance(getattr(node.op, "scalar_op", None), Cast)
    if is_cast and dtype in ("uint32", "uint64") and not state["whole"]:
        [cell], [made] = thunk.inputs, thunk.outputs
        if cell[0].dtype.kind == "f" and state["rng"].integers(2):
            made[0] = cell[0].astype("int64").astype(dtype)


def _adds_products(node: Any) -> bool:
    """Whether XLA may round a product and its sum together: the product does not overflow then."""
    return isinstance(getattr(node.op, "core_op", node.op), Dot | Convolve1d)


def _as_read(
    cell: Any, *, rng: Any, errors: Any, solved: Any, whole: bool | None, sign: Any,
    in_double: bool,
) -> Any:  # fmt: skip
    """What a node reads of a value."""
    value = cell[0] if id(cell) in solved else nudged(cell[0], rng, whole=whole)
    if in_double and isinstance(value, np.ndarray) and value.dtype == np.float32:
        value = value.astype("float64")
    _, error = errors.get(id(cell), (cell, None))
    if error is None or np.shape(error) != np.shape(value) or value.dtype.kind != "f":
        return value
    drawn = rng.integers(-1, 2, size=value.shape) * error
    return np.asarray(value + np.where(np.isfinite(value), drawn, 0), dtype=value.dtype)


def _errors(terms: Sequence[Any], *, whole: bool) -> Any:
    """The rounding of a sum, by its largest term."""
    sizes = [
        np.where(np.isfinite(t) & (whole | (t != np.rint(t))), np.abs(t) * np.finfo(t.dtype).eps, 0)
        for t in terms
        if isinstance(t, np.ndarray) and t.dtype.kind == "f"
    ]
    return np.max(np.broadcast_arrays(*sizes), axis=0) if sizes else 0


def _solves(node: Any) -> bool:
    op = getattr(node.op, "core_op", node.op)
    return any(part in type(op).__module__ for part in ("linalg", "decomposition"))


def _leaves_signs_open(node: Any) -> bool:
    """Whether the sign of a zero is not promised (docs/same_results.md)."""
    op = getattr(node.op, "core_op", node.op)
    is_product = any(part in type(op).__name__ for part in ("Dot", "Gemv", "Gemm", "Convolve"))
    if isinstance(op, Alloc | SortOp | Unique | Max | Min) or is_product:
        return True
    if isinstance(op, Scan):  # its sums are fused when it runs
        return any(map(_is_sum, op.fgraph.apply_nodes))
    if isinstance(op, HasInnerGraph):  # `einsum`
        return any(map(_leaves_signs_open, op.fgraph.apply_nodes))
    scalar_op = getattr(op, "scalar_op", None)
    if isinstance(scalar_op, Composite):
        parts = [part.op for part in scalar_op.fgraph.apply_nodes]
        return any(isinstance(part, Add) or _is_of_large_arrays(part) for part in parts)
    return _is_of_large_arrays(scalar_op)


def _is_of_large_arrays(scalar_op: object) -> bool:
    """Whether it leaves the sign open in arrays that are large, as all are by lowered bounds."""
    return isinstance(scalar_op, Maximum | Minimum) and comparisons._LARGE == 0


def _is_sum(node: Any) -> bool:
    return isinstance(getattr(node.op, "scalar_op", None), Add | Composite)


def _adds_zeros(node: Any, inputs: Sequence[Any]) -> bool:
    """Whether XLA may know the zeros of a sum: it takes x for 0.0 + x, a product for copies."""
    is_graph = isinstance(node.op, HasInnerGraph)
    axis = node.op.axis if isinstance(node.op, CAReduce) and _has_copies(node) else None
    return any(map(_adds, node.op.fgraph.apply_nodes if is_graph else [node])) and any(
        isinstance(value, np.ndarray)
        and value.dtype.kind in "fc"
        and value.size
        and np.any(np.all(value == 0, axis))
        for value in inputs
    )


def _has_copies(node: Any) -> bool:
    """Whether an array that a node reads, or one before it, is made of copies."""
    makers = (each.owner for each in ancestors(node.inputs))
    return any(maker is not None and isinstance(maker.op, Alloc) for maker in makers)


def _adds(node: Any) -> bool:
    """Whether it adds to numbers of which it does not say that they are zeros."""
    if isinstance(node.op, IncSubtensor | AdvancedIncSubtensor):
        return not (node.op.set_instead_of_inc or is_zero(node.inputs[0]))
    return isinstance(getattr(node.op, "scalar_op", None), Add)


def with_other_signs(value: Any, sign: float | None, rng: np.random.Generator) -> Any:
    """An array with zeros of this sign where it has zeros; of either sign for None."""
    if value.dtype.kind != "f":
        return value
    drawn = rng.integers(0, 2, size=value.shape) - 0.5
    zeros = np.copysign(value, drawn if sign is None else sign)
    return np.asarray(np.where(value == 0, zeros, value), dtype=value.dtype)


def spread(value: Any, rng: np.random.Generator) -> Any:
    """A result of linear algebra with other last digits, by the size of its largest entry.

    Its errors are bounded so: an entry that is zero or whole in one order of the sums is not in
    another.  Nor are entries that are equal, such as eigenvalues: in some runs near ones are.
    """
    if value.dtype.kind not in "fc":
        return value
    error = np.finfo(value.dtype).eps * scale(value)
    changed = value + rng.integers(-2, 3, size=value.shape) * error
    vanishes = (abs(value) < error) & (rng.integers(0, 2, size=value.shape) == 1)
    if error and rng.integers(2):
        changed = np.rint(value / (4 * error)) * (4 * error)
    changed = np.where(np.isfinite(value), changed, value)
    return np.asarray(np.where(vanishes, 0, changed), dtype=value.dtype)


def nudged(value: Any, rng: np.random.Generator, *, whole: bool | None) -> Any:
    """An array, or a sparse matrix, with other last digits, and zero for denormal numbers.

    Of whole numbers if ``whole``; None leaves all as they are.
    """
    if whole is None:
        return value
    if scipy.sparse.issparse(value):
        changed = value.copy()
        changed.data = nudged(value.data, rng, whole=whole)
        return changed
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return value
    with np.errstate(all="ignore"):
        step = rng.integers(-2, 3, size=value.shape) * np.finfo(value.dtype).eps
        changed = value * (1 + step)
        if not whole:
            exact = 1 / np.finfo(value.dtype).eps  # larger ones are whole, too
            changed = np.where((value == np.rint(value)) & (abs(value) < exact), value, changed)
        kept = np.where(np.isfinite(value), changed, value)
        kept = np.where(abs(value) < np.finfo(value.dtype).tiny, 0 * value, kept)
        return np.asarray(kept, dtype=value.dtype)


def largest(one: Any, other: Any) -> float:
    """The largest difference of entries; infinite where NaN or infinities differ."""
    if one.shape != other.shape:
        return np.inf
    if not one.size:
        return 0.0
    if one.dtype.kind == "b":
        return float(np.any(one != other))
    if one.dtype.kind in "iu":
        return float(np.abs(one.astype("float64") - other.astype("float64")).max())
    with np.errstate(all="ignore"):
        both = np.isfinite(one) & np.isfinite(other)
        if not np.array_equal(one[~both], other[~both], equal_nan=True):
            return np.inf
        return float(np.abs(one[both] - other[both]).max(initial=0))


def with_another_sign(one: Any, other: Any) -> Any:
    """Where two arrays of one shape have zeros of different signs."""
    if one.dtype.kind not in "fc":
        return np.zeros(one.shape, bool)
    zero = (one == 0) & (other == 0)
    return zero & (np.signbit(one.real) != np.signbit(other.real))


def scale(value: Any) -> float:
    """The largest finite entry."""
    with np.errstate(all="ignore"):
        numbers = np.abs(value.astype("complex128" if value.dtype.kind == "c" else "float64"))
        return float(numbers[np.isfinite(numbers)].max(initial=0))


def rounding_of(ends: Sequence[Any]) -> float:
    """How far values may differ: by the narrowest type among what they are made from."""
    return max(ROUNDING[name] for name in {"float64", *float_types(ends)})


def float_types(ends: Sequence[Any]) -> set[str]:
    """The narrow types of floating point among what the values are made from."""
    found = set()
    for variable in ancestors(ends):
        dtype = getattr(variable.type, "dtype", "")
        found |= {"float32"} if dtype in ("float32", "complex64") else {dtype} & {"float16"}
        op = getattr(variable.owner, "op", None)
        if isinstance(op, HasInnerGraph):
            inner = op.fgraph
            found |= float_types(inner.outputs)
    return found
