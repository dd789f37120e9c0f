"""Rules of other authors: which inputs they need as concrete values, found by tracing them.

Nobody has to declare `static_inputs`.  Without a declaration the first call would fail while JAX
traces, and where the user holds the jit there is no second one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from pytensor.graph.basic import Apply, Constant
from pytensor.link.jax.dispatch.basic import jax_funcify

from pytensor_jaxlink.graph import ArrayType

_LENGTH = 2  # of dimensions whose length is not known


def concrete_inputs(node: Apply, positions: Sequence[int]) -> tuple[int, ...]:
    """The inputs that the JAX rule of a node needs as concrete values, as few as possible.

    They are none where the rule takes tracers, or fails for another reason (these shapes, say).

    Parameters
    ----------
    node
        The node.
    positions
        The inputs that may be concrete.  Those that come first are spared first.

    Notes
    -----
    Cost: one trace of the rule, on arrays with two entries a dimension.  Of a rule that fails, one
    more, and one for each input that may be concrete.
    """
    if not (positions and all(isinstance(variable.type, ArrayType) for variable in node.inputs)):
        return ()
    try:
        function = jax_funcify(node.op, node=node)
    except Exception:  # it refuses this node; the analysis has seen that
        return ()
    needed = list(positions)
    with jax.enable_x64(True):
        if not isinstance(_failure(function, node, ()), TypeError | IndexError):
            return ()
        if _failure(function, node, needed):
            return ()
        for position in tuple(needed):
            fewer = [other for other in needed if other != position]
            if not _failure(function, node, fewer):
                needed = fewer
    return tuple(sorted(needed))


def _failure(
    function: Callable[..., object], node: Apply, concrete: Sequence[int]
) -> Exception | None:
    """The error of a rule, traced with some inputs concrete."""
    kinds = [_kind_of(variable.type) for variable in node.inputs]

    def traced(*values: object) -> object:
        given = list(values)
        for position in concrete:
            variable, kind = node.inputs[position], kinds[position]
            is_known = isinstance(variable, Constant)
            given[position] = variable.data if is_known else np.ones(kind.shape, kind.dtype)
        return function(*given)

    try:
        jax.eval_shape(traced, *kinds)
    except Exception as error:
        return error
    return None


def _kind_of(kind: ArrayType) -> jax.ShapeDtypeStruct:
    shape = tuple(_LENGTH if length is None else length for length in kind.shape)
    return jax.ShapeDtypeStruct(shape, kind.dtype)
