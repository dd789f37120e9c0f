"""JAX's transformations of a random graph, which `jaxify` has made a function of.

`jax.grad` is compared with PyTensor's gradient, and `jax.vmap` with one call for each example.
Arguments of floating point are drawn anew, without NaN, infinities and equal numbers, of which the
derivatives are a matter of taste.  A graph of float32 or of sparse matrices is left out, and so is
what JAX does not do in hand-written code either.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Pow
from pytensor.tensor.math import Max, Min
from pytensor.tensor.type import DenseTensorType

from pytensor_jaxlink import NotDifferentiableError, NotJittableError, jaxify
from pytensor_jaxlink.lowering import checks
from pytensor_jaxlink.ops import declares_gradient
from tests.differential.grammar import Graph
from tests.differential.options import PYTHON
from tests.differential.rounding import rounding_of
from tests.edges.compare import in_either_dtype
from tests.helpers import as_list

EXAMPLES = 2
CALLS = (0, 2)
"""The calls of which the other arguments are taken: their lengths differ."""

ROUNDING, STEP = 1e-6, 1e-6

UNTRACED = "Reverse-mode differentiation does not work for lax.while_loop"

Values = list[Any]


def transformed(graph: Graph, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """For each comparison the name of the transformation, and the difference or nothing."""
    if graph.float_type != "float64":
        return
    ends = (*graph.inputs, *graph.shared, *graph.outputs)
    if not all(isinstance(each.type, DenseTensorType) for each in ends):
        return
    draws = np.random.default_rng(graph.seed)
    function = _Transformed(graph, draws)
    for number in CALLS:
        call = [*graph.calls[number], *graph.initial]
        examples = [function.drawn(call) for _ in range(EXAMPLES)]
        for name in names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compare = function.batched if name == "vmap" else function.differentiated
                try:
                    difference = compare(examples)
                except (NotJittableError, NotDifferentiableError):
                    continue
                except Exception as error:
                    if UNTRACED in str(error):
                        continue
                    difference = repr(error)
            if difference is not None:
                yield name, difference and f"call {number}, {name}: {difference}"


class _Transformed:
    """The functions of a graph.  A comparison is None where there is nothing to compare."""

    def __init__(self, graph: Graph, draws: np.random.Generator) -> None:
        # A shared variable is an argument here, as it is for `jax_fn`.
        states = {variable: variable.type() for variable in graph.shared}
        self._outputs: Values = clone_replace(graph.outputs, states) if states else graph.outputs
        self._inputs, self._draws = [*graph.inputs, *states.values()], draws
        self._has_nan = draws.random() < 0.5
        ops = list(_ops(graph.outputs))
        self._has_places = any(type(op).__name__.startswith("Advanced") for op in ops)
        self._declares = any(isinstance(op, OpFromGraph) and declares_gradient(op) for op in ops)
        self._rounding = max(ROUNDING, rounding_of(graph.outputs))
        self._reals = [k for k, v in enumerate(self._inputs) if v.type.dtype == "float64"]

    def drawn(self, call: Sequence[Any]) -> Values:
        """The arguments of a call with other reals.

        In half of the graphs they are NaN where a mask of their length is false: a selection may
        leave these out, and then they leave nothing in the derivatives.
        """
        [mask] = [v for v in call if np.ndim(v) == 1 and v.dtype == bool][:1] or [np.ones(0, bool)]
        values: Values = list(call)
        for k in self._reals:
            values[k] = self._draws.normal(size=np.shape(call[k]))
            if self._has_nan and values[k].shape == mask.shape:
                values[k][~mask] = np.nan
        return values

    def batched(self, examples: Sequence[Values]) -> str | None:
        """`jax.vmap` beside a call for each example."""
        try:
            function = self._python(self._outputs)
            expected = [as_list(function(*values)) for values in examples]
        except Exception:
            return None
        if not self._reals:
            return None
        run = self._of_reals(jaxify(self._inputs, self._outputs), examples[0])
        stacked = [np.stack([values[k] for values in examples]) for k in self._reals]
        found = as_list(jax.vmap(run)(*stacked))
        for number, each in enumerate(expected):
            for one, other, output in zip(found, each, self._outputs, strict=True):
                either = in_either_dtype(other, one[number], output.type.dtype)
                if not self._same(one[number], either):
                    if self._is_unassumed(one[number], examples[number], run):
                        return None
                    return f"{one[number]} where Python gives {other!r}"
        return ""

    def differentiated(self, examples: Sequence[Values]) -> str | None:
        """`jax.grad` beside PyTensor's gradient."""
        ends = [pt.sum(each) for each in self._outputs if each.type.dtype == "float64"]
        if not ends or not self._reals:
            return None
        total, reals = pt.add(*ends) if len(ends) > 1 else ends[0], self._reals
        values = [examples[0][k] for k in reals]
        try:
            wrt = [self._inputs[k] for k in reals]
            gradients = pytensor.grad(total, wrt, disconnected_inputs="ignore")
            expected = self._python(gradients)(*examples[0])
            plain = self._of_reals(self._python(total), examples[0])
            if not np.isfinite(plain(*values)):
                return None
        except Exception:
            return None
        run = self._of_reals(jaxify(self._inputs, total), examples[0])
        found = jax.grad(run, tuple(range(len(reals))))(*values)
        if all(map(self._same, found, expected)):
            return ""
        if self._is_unassumed(found, examples[0], run):
            return None
        is_wrong = [*map(np.shape, expected)] != [*map(np.shape, values)]  # PyTensor's gradient
        if is_wrong or self._leaves_its_type(examples[0]):
            return None
        if self._declares and (self._has_places or self._has_equal_extremes(examples[0])):
            return None  # neither PyTensor's gradient nor the slope is what JAX has to give
        is_slope = not self._declares and self._is_slope(plain, values, found)
        return "" if is_slope else f"{[*map(np.asarray, found)]} where PyTensor has {expected}"

    def _leaves_its_type(self, values: Values) -> bool:
        """Return True where PyTensor subtracts 1 from an exponent that is the least of its type."""
        powers = [n for n in self._nodes() if isinstance(getattr(n.op, "scalar_op", None), Pow)]
        exponents = [
            node.inputs[1] for node in powers if node.inputs[1].type.numpy_dtype.kind in "iu"
        ]
        found = self._python(exponents)(*values) if exponents else []
        return any(np.any(each == np.iinfo(each.dtype).min) for each in map(np.asarray, found))

    def _is_unassumed(self, found: Any, values: Values, run: Callable[..., Any]) -> bool:
        """Return True if NaN says that an assumption does not hold (docs/checks.md)."""
        if not any(np.isnan(each).any() for each in as_list(found)):
            return False
        reals = [values[k] for k in self._reals]
        with patch.object(checks, "everywhere", lambda condition: jax.numpy.array(True)):
            taken = as_list(jax.jit(run)(*reals))
        given = as_list(jax.jit(lambda *each: run(*each))(*reals))
        nan = [[np.isnan(each).any() for each in outputs] for outputs in (given, taken)]
        return nan[0] != nan[1]

    def _has_equal_extremes(self, values: Values) -> bool:
        """Return True where several entries are the largest, or the smallest, of a reduction."""
        counts = []
        for node in self._nodes():
            if isinstance(node.op, Max | Min):
                [entries], axis = node.inputs, node.op.axis
                axis = tuple(range(entries.ndim)) if axis is None else axis
                extremes = pt.expand_dims(node.outputs[0], axis)
                counts.append(pt.eq(entries, extremes).sum(axis))
        return any(np.any(each > 1) for each in self._python(counts)(*values))

    def _nodes(self) -> list[Any]:
        return [variable.owner for variable in ancestors(self._outputs) if variable.owner]

    def _is_slope(self, plain: Callable[..., Any], values: Values, found: Sequence[Any]) -> bool:
        """Return True if a difference quotient agrees with what JAX found.

        PyTensor counts the value at a repeated place once for each time that it is written, and
        an entry that is taken or joined twice is its own equal, which a maximum shares with it.
        """
        directions = [self._draws.normal(size=value.shape) for value in values]
        after, before = (
            plain(*(v + sign * STEP * d for v, d in zip(values, directions, strict=True)))
            for sign in (1, -1)
        )
        slope = sum(np.vdot(d, f) for d, f in zip(directions, found, strict=True))
        return np.allclose(slope, (after - before) / (2 * STEP), rtol=1e-4, atol=1e-4)

    def _same(self, found: Any, expected: Any) -> bool:
        found, expected = np.asarray(found), np.asarray(expected)
        # A running sum in a narrow type loses digits of its largest part.
        size = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        return found.shape == expected.shape and np.allclose(
            found, expected, rtol=self._rounding, atol=self._rounding * size, equal_nan=True
        )

    def _python(self, outputs: Any) -> Callable[..., Any]:
        return pytensor.function(self._inputs, outputs, mode=PYTHON, on_unused_input="ignore")

    def _of_reals(self, function: Callable[..., Any], values: Values) -> Callable[..., Any]:
        """The function of the arguments that are transformed."""

        def run(*reals: Any) -> Any:
            given = list(values)
            for k, real in zip(self._reals, reals, strict=True):
                given[k] = real
            return function(*given)

        return run


def _ops(ends: Sequence[Any]) -> Iterator[Any]:
    """The operations of a graph, and of the graphs inside of these."""
    for variable in ancestors(ends):
        op = getattr(variable.owner, "op", None)
        op = getattr(op, "core_op", op)
        yield op
        if isinstance(op, HasInnerGraph):
            yield from _ops(op.fgraph.outputs)
