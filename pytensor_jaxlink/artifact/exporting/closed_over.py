"""Large arrays that a traced function has closed over: found, and made arguments.

`jax.export` would write each of them into the code, once for every time that it is exported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from pytensor_jaxlink.artifact.arrays import SMALL
from pytensor_jaxlink.artifact.compiled.typed_keys import implementation_of

Key = tuple[str, str, tuple[int, ...]]
"""A large constant: its contents, dtype and shape."""


def large_constants(closed: ClosedJaxpr) -> dict[Key, jax.Array]:
    """The large constants of a traced function, each content once, in the order of their use."""
    return {_key(value): value for value in _constants(closed) if _is_large(value)}


def with_arguments(
    closed: ClosedJaxpr, replaced: Mapping[Key, object], arguments: Sequence[object]
) -> list[object]:
    """The results of a traced function, with other values in the place of large constants."""
    constants = [_replaced(value, replaced) for value in closed.consts]
    if not any(map(_is_large, _inner_constants(closed))):
        return list(jaxpr_as_fun(closed.replace(consts=constants))(*arguments))
    jaxpr = closed.jaxpr
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def value_of(variable: object) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        inner = _jitted(equation)
        if inner is not None:
            given = equation.outvars
            found = with_arguments(inner, replaced, list(map(value_of, equation.invars)))
        else:
            taken = {each: None for each in equation.invars if not isinstance(each, Literal)}
            given = [each for each in equation.outvars if not isinstance(each, DropVar)]
            alone = _alone(jaxpr, equation, list(taken), given)
            found = jaxpr_as_fun(alone)(*map(value_of, taken))
        known.update(zip(given, found, strict=True))
    return list(map(value_of, jaxpr.outvars))


def _alone(
    jaxpr: Jaxpr, equation: JaxprEqn, taken: Sequence[Var], given: Sequence[Var]
) -> ClosedJaxpr:
    """An equation as a function of its own."""
    info = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    part = jaxpr.replace(
        constvars=[], invars=taken, outvars=given, eqns=[equation], debug_info=info
    )
    return ClosedJaxpr(part, [])


def _replaced(value: object, replaced: Mapping[Key, object]) -> object:
    return replaced.get(_key(value), value) if _is_large(value) else value


def _constants(closed: ClosedJaxpr) -> Iterator[jax.Array]:
    yield from closed.consts
    yield from _inner_constants(closed)


def _inner_constants(closed: ClosedJaxpr) -> Iterator[jax.Array]:
    """Those of calls of jitted functions: of other inner functions JAX makes them arguments."""
    for equation in closed.jaxpr.eqns:
        inner = _jitted(equation)
        if inner is not None:
            yield from _constants(inner)


def _jitted(equation: JaxprEqn) -> ClosedJaxpr | None:
    return equation.params["jaxpr"] if "donated_invars" in equation.params else None


def _is_large(value: object) -> bool:
    return getattr(value, "nbytes", 0) > SMALL and implementation_of(value) is None


def _key(value: object) -> Key:
    array = np.asarray(value)
    return sha256(array.tobytes()).hexdigest(), str(array.dtype), array.shape
