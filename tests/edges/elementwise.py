"""Edge values through every elementwise Op and reduction, against the Python linker.

Arrays are compared with arrays and scalars with scalars, because NumPy's functions of both differ.
Nothing is fused in the Python linker: fused, it calls other functions for each entry.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.op import Op
from pytensor.scalar import basic, loop, math
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor import math as tensor_math
from pytensor.tensor.elemwise import Elemwise

from tests.edges.compare import difference, differences_of_entries, in_either_dtype, outcomes
from tests.edges.known import OLD
from tests.edges.values import DTYPES, edges, few
from tests.helpers import PYTHON

REFERENCE = PYTHON.excluding("fusion")

# Of Ops with any number of inputs.
_ARITIES = {
    "Add": (2,) if OLD else (2, 3),
    "Mul": (2,) if OLD else (2, 3),
    "BetaIncInv": (3,),
    "ScalarLoop": (2,),
}
# Their iterations take long for the large arguments of the full set.
SLOW = {
    "BetaInc", "BetaIncInv", "GammaInc", "GammaIncC", "GammaIncInv", "GammaIncCInv", "GammaL",
    "GammaU", "Hyp2F1", "Ive", "Jv", "Kve", "Owens_t", "PolyGamma",
}  # fmt: skip
# SciPy refuses complex arguments of these, and functions that raise are called for each value.
_REAL = {"J0", "J1"}


@dataclass(frozen=True)
class Case:
    """One function: Ops that take arguments of the same dtypes."""

    dtypes: tuple[str, ...]
    ops: tuple[ScalarOp, ...]
    small: bool = False
    scalars: bool = False

    def __str__(self) -> str:
        return "-".join((*self.dtypes, *(["slow"] if self.small and len(self.dtypes) < 3 else [])))


def scalar_ops() -> list[ScalarOp]:
    """Every instance of a scalar Op that PyTensor exports, and those that hold graphs."""
    found: dict[Any, ScalarOp] = {}
    for module in (basic, math, tensor_math):
        for name, each in sorted(vars(module).items()):
            if isinstance(each, ScalarOp):
                found.setdefault(name if isinstance(each, basic.Cast) else each, each)
    return [*found.values(), *_with_graphs()]


def _with_graphs() -> list[ScalarOp]:
    found: list[ScalarOp] = []
    for dtype in ("float64", "float32", "int64"):
        x, y = basic.get_scalar_type(dtype)("x"), basic.get_scalar_type(dtype)("y")
        # No sum: XLA contracts one with the last product of an exponential that overflows.
        found.append(basic.Composite([x, y], [basic.maximum(x * y, basic.exp(x))]))
        found.append(loop.ScalarLoop(init=[x], update=[x * y + 1], constant=[y]))
    return found


def arities(op: ScalarOp) -> tuple[int, ...]:
    return _ARITIES.get(type(op).__name__, (op.nin,))


def cases(arity: int, dtypes: Sequence[tuple[str, ...]], **options: Any) -> Iterator[Case]:
    """For each combination of dtypes the quick Ops with all values, the slow ones with a few."""
    ops = [op for op in scalar_ops() if arity in arities(op)]
    for each in dtypes:
        fitting = [op for op in ops if _applies(op, each)]
        apart = SLOW | (_REAL if "complex" in "".join(each) else set())
        slow = [op for op in fitting if type(op).__name__ in apart]
        quick = tuple(op for op in fitting if type(op).__name__ not in apart)
        if quick:
            yield Case(each, quick, small=arity > 2, **options)
        if slow and (len(set(each)) == 1 or arity > 2):
            yield Case(each, tuple(slow), small=True, **options)


def _applies(op: ScalarOp, dtypes: Sequence[str]) -> bool:
    kinds = {dtype[0] for dtype in dtypes}
    by_entry = isinstance(op, basic.Cast) and ("c" in kinds or op.o_type.dtype[0] in "iu")
    if OLD and (by_entry or type(op).__name__ == "ComplexFromPolar"):
        return False  # PyTensor 3.0 runs them entry by entry, in Python, and raises
    own_graph = isinstance(op, basic.ScalarInnerGraphOp | loop.ScalarLoop)
    if own_graph and {kind.dtype for kind in op.inputs_type[-2:]} != set(dtypes):
        return False
    try:
        _apply(op, _variables(dtypes, 1))
    except (TypeError, NotImplementedError):
        return False
    return True


def _variables(dtypes: Sequence[str], ndim: int) -> list[Any]:
    return [pt.TensorType(dtype, shape=(None,) * ndim)() for dtype in dtypes]


def _apply(op: ScalarOp, variables: Sequence[Any]) -> list[Any]:
    if isinstance(op, loop.ScalarLoop):
        return [Elemwise(op)(pt.constant(3), *variables)]
    return [Elemwise(op)(*variables)]


def differences(case: Case) -> list[str]:
    """What differs and no row of the table names."""
    mixed = "complex" in "".join(case.dtypes) and len(case.dtypes) > 1
    small = case.small or case.scalars or mixed
    values = [few(dtype) if small else edges(dtype) for dtype in case.dtypes]
    if any(type(op).__name__ == "Hyp2F1" for op in case.ops):  # SciPy crashes
        values = [each[~_is_largest(each)] for each in values]
    grid = [each.ravel() for each in np.meshgrid(*values, indexing="ij")]
    return _differences(case, list(case.ops), grid) if case.ops else []


def _is_largest(values: Any) -> Any:
    """Which numbers are as large as their type allows."""
    kind = values.dtype.kind
    if kind == "b":
        return np.zeros(values.shape, bool)
    limits = np.finfo(values.dtype) if kind in "fc" else np.iinfo(values.dtype)
    return np.abs(values) == limits.max


def _differences(case: Case, ops: list[ScalarOp], grid: list[Any]) -> list[str]:
    """Those of some Ops in one function; where one raises, of each half on its own."""
    found, expected = _both(case, ops)
    if case.scalars:
        places = range(len(grid[0]))
        texts = [text for place in places for text in _at(ops, grid, place, expected, found)]
        return _of_halves(case, ops, grid) if texts and len(ops) > 1 else texts
    given, wanted = outcomes(found, *grid), outcomes(expected, *grid)
    raised = isinstance(given, type) or isinstance(wanted, type)
    if raised and len(ops) > 1:
        return _of_halves(case, ops, grid)
    if raised:
        return _one_by_one(ops, grid, expected, found)
    return _of_outputs(ops, tuple(grid), wanted, given)


def _of_halves(case: Case, ops: list[ScalarOp], grid: list[Any]) -> list[str]:
    half = len(ops) // 2
    return [*_differences(case, ops[:half], grid), *_differences(case, ops[half:], grid)]


def _one_by_one(ops: list[ScalarOp], grid: list[Any], expected: Any, found: Any) -> list[str]:
    texts: list[str] = []
    for place in range(len(grid[0])):
        inputs = tuple(each[place : place + 1] for each in grid)
        given, wanted = outcomes(found, *inputs), outcomes(expected, *inputs)
        texts += _of_outputs(ops, inputs, wanted, given)
    return texts


def _at(ops: list[ScalarOp], grid: list[Any], place: int, expected: Any, found: Any) -> list[str]:
    inputs = tuple(np.asarray(each[place]) for each in grid)
    return _of_outputs(ops, inputs, outcomes(expected, *inputs), outcomes(found, *inputs))


def _of_outputs(ops: list[ScalarOp], inputs: Any, wanted: Any, given: Any) -> list[str]:
    if isinstance(wanted, type) or isinstance(given, type):
        names = ", ".join(type(op).__name__ for op in ops)
        one, other = (each if isinstance(each, type) else each[0] for each in (wanted, given))
        return differences_of_entries(names, inputs, one, other)
    texts: list[str] = []
    for op, one, other in zip(ops, wanted, given, strict=True):
        texts += differences_of_entries(type(op).__name__, inputs, one, other)
    return texts


def _both(case: Case, ops: list[ScalarOp]) -> Any:
    variables = _variables(case.dtypes, 0 if case.scalars else 1)
    outputs = [output for op in ops for output in _apply(op, variables)]
    return _functions(variables, outputs)


def _functions(variables: Any, outputs: Any) -> Any:
    logging.getLogger("pytensor").setLevel(logging.CRITICAL)  # rewrites of PyTensor that fail
    return tuple(
        pytensor.function(variables, outputs, mode=mode, on_unused_input="ignore")
        for mode in ("JAXSELECTIVE", REFERENCE)
    )


# Reductions


def reductions(array: Any) -> dict[str, Any]:
    """The reductions of an array that its dtype has."""
    makers: dict[str, Any] = {
        "Sum": pt.sum, "Prod": pt.prod, "Max": pt.max, "Min": pt.min, "Argmax": pt.argmax,
        "All": pt.all, "Any": pt.any, "CumOp": pt.cumsum, "CumOp*": pt.cumprod,
        "Mean": pt.mean, "Min*": lambda x: tensor_math.Min((0,))(x),
        "ProdWithoutZeros": lambda x: tensor_math.ProdWithoutZeros()(x),
        "SortOp": pt.sort, "ArgSortOp": lambda x: pt.argsort(x, stable=True),
        "Softmax": lambda x: pt.special.softmax(x, axis=0),
        "LogSoftmax": lambda x: pt.special.log_softmax(x, axis=0),
    }  # fmt: skip
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make(array)
        except (TypeError, NotImplementedError):
            continue
    return found


def reduced(dtype: str) -> list[Any]:
    """Arrays to reduce: pairs of edge values, each alone, none, and all of them."""
    values = few(dtype)
    pairs = [np.array(pair, dtype) for pair in itertools.product(values, repeat=2)]
    return [values[:0], *(values[k : k + 1] for k in range(len(values))), *pairs, values]


def differences_of_reductions(dtype: str) -> list[str]:
    [array] = _variables([dtype], 1)
    made = reductions(array)
    functions = {name: _functions([array], [output]) for name, output in made.items()}
    texts: list[str] = []
    for name, (found, expected) in functions.items():
        for values in reduced(dtype):
            given, wanted = outcomes(found, values), outcomes(expected, values)
            one = wanted if isinstance(wanted, type) else wanted[0]
            other = given if isinstance(given, type) else given[0]
            declared = made[name].type.dtype  # `perform` of some Ops returns another
            if name.startswith("CumOp") and not isinstance(one, type) | isinstance(other, type):
                one = in_either_dtype(one, other, declared)
            elif not isinstance(one, type):
                one = one.astype(declared)
            text = difference(name.rstrip("*"), (values,), one, other)
            texts += [] if text is None else [text]
    return texts


def covered() -> set[type[Op]]:
    """The classes of the Ops that cases apply."""
    found: set[type[Op]] = {type(op) for op in scalar_ops()}
    for dtype in ("float64", "bool"):
        for output in reductions(_variables([dtype], 1)[0]).values():
            stack = [output]
            while stack:
                node = stack.pop().owner
                if node is not None:
                    found.add(type(node.op))
                    stack += node.inputs
    return found


def run() -> list[str]:
    """Every Op on every combination of dtypes."""
    texts: list[str] = []
    for arity in (1, 2, 3, 4):
        combinations = (
            list(itertools.product(DTYPES, repeat=arity))
            if arity < 3
            else [(dtype,) * arity for dtype in DTYPES]
        )
        for case in cases(arity, combinations):
            texts += differences(case)
    for dtype in DTYPES:
        texts += differences_of_reductions(dtype)
        for arity in (1, 2):
            for case in cases(arity, [(dtype,) * arity], scalars=True):
                texts += differences(case)
    return texts
