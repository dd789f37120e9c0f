"""Rules of other authors: which inputs they need as concrete values, found by tracing them.

Nobody has to declare `static_inputs`.  Without a declaration the first call would fail while JAX
traces, and where the user holds the jit there is no second one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.link.jax.dispatch.basic import jax_funcify

from pytensor_jaxlink.graph import ArrayType

_LENGTH = 2  # of dimensions whose length is not known


def needs_concrete(node: Apply, positions: Sequence[int]) -> bool:
    """Return True if the JAX rule of a node fails on tracers, but not with these concrete.

    Cost: two traces of the rule, on arrays with two entries a dimension.  A rule that fails for
    another reason (these shapes, say) says nothing.
    """
    if not all(isinstance(variable.type, ArrayType) for variable in node.inputs):
        return False
    try:
        function = jax_funcify(node.op, node=node)
    except Exception:  # it refuses this node; the analysis has seen that
        return False
    kinds = [_kind_of(variable.type) for variable in node.inputs]
    with jax.enable_x64(True):
        traced = _failure(function, kinds, ())
        return isinstance(traced, TypeError | IndexError) and not _failure(
            function, kinds, positions
        )


def _failure(
    function: Callable[..., object], kinds: Sequence[jax.ShapeDtypeStruct], concrete: Sequence[int]
) -> Exception | None:
    """The error of a rule, traced with some inputs concrete."""

    def traced(*values: object) -> object:
        given = [
            np.ones(kind.shape, kind.dtype) if position in concrete else value
            for position, (kind, value) in enumerate(zip(kinds, values, strict=True))
        ]
        return function(*given)

    try:
        jax.eval_shape(traced, *kinds)
    except Exception as error:
        return error
    return None


def _kind_of(kind: ArrayType) -> jax.ShapeDtypeStruct:
    shape = tuple(_LENGTH if length is None else length for length in kind.shape)
    return jax.ShapeDtypeStruct(shape, kind.dtype)
