"""The arrays that a JAX function brings along: leaves, those of its owner, large constants."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import MethodType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from pytensor_jaxlink.artifact.arrays import SMALL
from pytensor_jaxlink.artifact.skeletons import Leaf, implementation_of


class _Partial(NamedTuple):
    func: object
    args: tuple[object, ...]
    keywords: dict[str, object]


@dataclass(frozen=True)
class Held:
    """A function without its arrays."""

    arrays: tuple[jax.Array, ...]  # the arrays, each object once
    names: tuple[str, ...]  # a name for each: its place in the function
    _leaves: tuple[object, ...]  # a `Leaf` where an array was, and leaves of other kinds
    _tree: Any
    _rebuild: Callable[..., Callable[..., object]]

    @classmethod
    def by(cls, function: object) -> Held:
        """The arrays of a function that is a tree, a partial of arrays, or a method of a tree."""
        opened, rebuild = _opened(function)
        paths, tree = jax.tree_util.tree_flatten_with_path(opened)
        kinds = jax.Array if not is_tree(function) else jax.Array | np.ndarray
        known = _names(getattr(function, "__wrapped__", None))
        places: dict[int, int] = {}
        arrays, names, leaves = [], [], []
        for path, leaf in paths:
            if not isinstance(leaf, kinds):
                leaves.append(leaf)
                continue
            if id(leaf) not in places:
                places[id(leaf)] = len(arrays)
                arrays.append(leaf)
                names.append(known.get(id(leaf), _shown(path)))
            leaves.append(Leaf(places[id(leaf)]))
        return cls(tuple(arrays), tuple(names), tuple(leaves), tree, rebuild)

    def rebuilt(self, arrays: Sequence[object]) -> Callable[..., object]:
        """The function with other arrays."""
        leaves = [arrays[leaf.place] if type(leaf) is Leaf else leaf for leaf in self._leaves]
        return self._rebuild(self._tree.unflatten(leaves))


def is_tree(function: object) -> bool:
    """Return True for a function that JAX knows as a tree, such as a module of equinox."""
    return not jax.tree_util.all_leaves([function])


def _opened(function: object) -> tuple[object, Callable[..., Callable[..., object]]]:
    """A function as a tree, and a function that makes a function of such a tree."""
    if isinstance(function, functools.partial) and not is_tree(function):
        inner, rebuild = _opened(function.func)
        parts = _Partial(inner, function.args, function.keywords)
        return parts, lambda tree: functools.partial(
            rebuild(tree.func), *tree.args, **tree.keywords
        )
    if isinstance(function, MethodType):
        return function.__self__, function.__func__.__get__
    return function, lambda tree: tree


def _names(wrapped: object) -> dict[int, str]:
    """Names of arrays, by their `id`, in the function that another one wraps."""
    return {
        id(leaf): _shown(path) for path, leaf in jax.tree_util.tree_flatten_with_path(wrapped)[0]
    }


def _shown(path: tuple[object, ...]) -> str:
    name = jax.tree_util.keystr(path)
    return re.sub(r"^(\._\w+)*\.?", "", name) or name


# -- large constants: `jax.export` would write each into the code, for every export ----------------

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
