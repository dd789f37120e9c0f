"""Arrays of real numbers that have no negative entry, whatever the inputs are.

The scale of a normal variable may not be negative.  Where it is drawn from a half-normal one, as in
most models, nobody has to look at it, and so the call need not be waited for.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random import basic as random
from pytensor.tensor.random.op import RandomVariable

from pytensor_jaxlink.analysis.ranges import DEPTH, MOVING
from pytensor_jaxlink.graph import (
    GraphNode,
    GraphVariable,
    data_of,
    dtype_of,
    inputs_of,
    outputs_of,
)


class Sign(NamedTuple):
    """Facts about all entries of an array.

    Attributes
    ----------
    no_sign
        None has the sign bit, except for NaN.
    no_nan
        None is NaN.
    """

    no_sign: bool = False
    no_nan: bool = False


_UNKNOWN = Sign()


def sign_of(array: GraphVariable, depth: int = DEPTH) -> Sign:
    """The facts about an array.  They cost a walk over the nodes that compute it."""
    if isinstance(array, Constant):
        entries = np.asarray(data_of(array))
        if entries.dtype.kind != "f":
            return Sign(entries.dtype.kind in "iub" and bool((entries >= 0).all()), no_nan=True)
        missing = np.isnan(entries)
        return Sign(bool((missing | ~np.signbit(entries)).all()), not missing.any())
    node: GraphNode | None = array.owner
    return _UNKNOWN if node is None or depth == 0 else _sign_from(node.op, node, depth - 1)


@singledispatch
def _sign_from(op: Op, node: GraphNode, depth: int) -> Sign:
    return _UNKNOWN


def _moved(op: Op, node: GraphNode, depth: int) -> Sign:
    return sign_of(inputs_of(node)[0], depth)


for _kind in MOVING:
    _sign_from.register(_kind, _moved)


@_sign_from.register
def _each(op: Elemwise, node: GraphNode, depth: int) -> Sign:
    [result] = outputs_of(node)
    integers = [array for array in inputs_of(node) if np.dtype(dtype_of(array)).kind in "iub"]
    # Integers wrap: the square of an int8 may be negative, and so may the sum of two.
    if np.dtype(dtype_of(result)).kind != "f" or len(integers) > 1:
        return _UNKNOWN
    signs = [sign_of(array, depth) for array in inputs_of(node)]
    no_sign, no_nan = (all(known) for known in zip(*signs, strict=True))
    match op.scalar_op:
        case scalar.Exp() | scalar.Sqr() | scalar.Abs():
            return Sign(True, no_nan)
        case scalar.Sqrt() | scalar.Add():
            return Sign(no_sign, no_sign and no_nan)  # infinities of one sign
        case scalar.Mul() | scalar.TrueDiv():
            return Sign(no_sign)  # 0 times infinity is NaN
        case _:
            return _UNKNOWN


@_sign_from.register
def _drawn(op: RandomVariable, node: GraphNode, depth: int) -> Sign:
    """Parameters that the domain of the distribution excludes have their own check."""
    parameters = inputs_of(node)[2:]  # after the generator and the size
    constant = all(map(_is_finite, parameters))
    match op:
        case random.HalfNormalRV() | random.HalfCauchyRV():  # location and scale
            return Sign(sign_of(parameters[0], depth).no_sign, constant)
        case random.ExponentialRV() | random.GammaRV():
            return Sign(True, constant)
        case random.BetaRV() | random.InvGammaRV() | random.LogNormalRV() | random.WeibullRV():
            return Sign(True)
        case random.UniformRV():  # from the lower bound on
            return Sign(sign_of(parameters[0], depth).no_sign)
        case _:
            return _UNKNOWN


def _is_finite(array: GraphVariable) -> bool:
    """Return True for a constant of finite numbers, in any shape."""
    while (node := array.owner) is not None and isinstance(node.op, DimShuffle | Alloc):
        array = inputs_of(node)[0]
    return isinstance(array, Constant) and bool(np.isfinite(np.asarray(data_of(array))).all())
