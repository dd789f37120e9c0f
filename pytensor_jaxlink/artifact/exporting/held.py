"""The arrays that a JAX function brings along: leaves of the function itself, and of its owner."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, NamedTuple

import jax
import numpy as np

from pytensor_jaxlink.artifact.skeletons import Leaf


class _Partial(NamedTuple):
    func: object
    args: tuple[object, ...]
    keywords: dict[str, object]


@dataclass(frozen=True)
class Held:
    """A function without its arrays.

    Attributes
    ----------
    arrays
        The arrays, each object once.
    names
        A name for each: its place in the function.
    """

    arrays: tuple[jax.Array, ...]
    names: tuple[str, ...]
    _leaves: tuple[object, ...]  # a `Leaf` where an array was, and leaves of other kinds
    _tree: Any
    _rebuild: Callable[[Any], Callable[..., object]]

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


def _opened(function: object) -> tuple[object, Callable[[Any], Any]]:
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
