"""The cost of an elementwise Op for each entry."""

from __future__ import annotations

from typing import Any

from pytensor.scalar import basic as scalar

CHEAP, DIVISION, FUNCTION = 1, 5, 20

_ARITHMETIC = (
    scalar.Add, scalar.Sub, scalar.Mul, scalar.Neg, scalar.Abs, scalar.Sqr, scalar.Switch,
    scalar.Cast, scalar.Maximum, scalar.Minimum, scalar.Clip, scalar.Second, scalar.Identity,
    scalar.LogicalComparison, scalar.BinaryBitOp, scalar.UnaryBitOp, scalar.Sign,
)  # fmt: skip
_DIVISIONS = (scalar.TrueDiv, scalar.Reciprocal, scalar.Sqrt, scalar.IntDiv, scalar.Mod)


def cost_of(op: Any) -> int:
    """The cost of a scalar Op, in additions: twenty for a function, five for a division."""
    if isinstance(op, _ARITHMETIC):
        return CHEAP
    return DIVISION if isinstance(op, _DIVISIONS) else FUNCTION
