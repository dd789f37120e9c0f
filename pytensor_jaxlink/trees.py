"""Pure functions of trees: their arguments and results, over a function of flat values.

Both `jaxify` and `load` make such functions, so nothing here needs PyTensor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import NotJittableError
from pytensor_jaxlink.generators import key_of_generator
from pytensor_jaxlink.remedies import Remedy, either


@dataclass(frozen=True, eq=False)
class Trees:
    """The arguments and results of a pure function ``fn(*arguments, *state, **keywords)``.

    The function of flat values takes each variable once, then the state.

    Attributes
    ----------
    name : str
        The function, for errors.
    arguments : tuple of PyTreeDef
        The tree of each argument.
    keywords : PyTreeDef
        The tree of the dictionary of the keyword arguments.
    outputs : PyTreeDef
        The tree of the results.
    places : tuple of int
        For each leaf of the arguments, the flat input that it is.
    names : tuple of str
        Of each leaf, then of each part of the state.
    argument_names : tuple of str
        The names of the arguments, for errors; none where they have numbers.
    """

    name: str
    arguments: tuple[Any, ...]
    keywords: Any
    outputs: Any
    places: tuple[int, ...]
    names: tuple[str, ...]
    argument_names: tuple[str, ...] = ()

    @cached_property
    def first(self) -> tuple[int, ...]:
        """For each flat input that is no state, its first leaf."""
        found: dict[int, int] = {}
        for leaf, place in enumerate(self.places):
            found.setdefault(place, leaf)
        return tuple(found[place] for place in range(len(found)))

    def flat(self, values: Sequence[object], state: Sequence[object]) -> list[object]:
        """The flat inputs of a call.

        Raises
        ------
        TypeError
            If there are more or fewer arguments.
        ValueError
            If an argument has another tree; the message says where.  Or if two leaves of one
            variable have different values.
        """
        expected = len(self.names) - len(self.places)
        if len(values) != len(self.arguments) or len(state) != expected:
            text = (
                f"{self.name} takes {len(self.arguments)} inputs and the values of {expected} "
                f"shared variables ({', '.join(self.names)}), found {len(values)} and {len(state)}"
            )
            raise TypeError(Code.CALL_OF_PURE.mark(text))
        return [*self._distinct(self.leaves(tuple(values), {})), *state]

    @cached_property
    def _whole(self) -> Any:
        from jax.tree_util import treedef_tuple  # at first use, as in `_tracer`

        return treedef_tuple((treedef_tuple(self.arguments), self.keywords))

    def leaves(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[object]:
        """The leaves of the arguments of a call, which has as many as the function.

        Raises
        ------
        ValueError
            If one has another tree; the message says where.
        """
        try:
            return self._whole.flatten_up_to((args, kwargs))
        except (TypeError, ValueError):
            return self._known_by_name(args, kwargs)

    def _known_by_name(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> list[object]:
        """The leaves of trees that JAX does not know again, or the error that says where."""
        from jax.tree_util import treedef_children

        keywords = sorted(kwargs)
        names = [*(self.argument_names or (f"argument {k}" for k in range(len(args)))), *keywords]
        trees = [*self.arguments, *treedef_children(self.keywords)]
        values = [*args, *(kwargs[name] for name in keywords)]
        found: list[object] = []
        for name, tree, value in zip(names, trees, values, strict=True):
            skeleton = tree.unflatten([0] * tree.num_leaves)
            leaves = list(_leaves_of(skeleton, value, f"{self.name}: {name}"))
            # What holds nodes of other kinds is for JAX, and so is its error.
            found += leaves if len(leaves) == tree.num_leaves else tree.flatten_up_to(value)
        return found

    def _distinct(self, leaves: Sequence[object]) -> list[object]:
        """The value of each variable."""
        firsts = self.first
        for leaf, value in enumerate(leaves):
            first = firsts[self.places[leaf]]
            if value is not leaves[first] and not _may_be_equal(value, leaves[first]):
                text = (
                    f"{self.name}: leaves {first} and {leaf} of the inputs are one variable, "
                    f"{self.names[first]}, and their values differ. {Remedy.ONE_VALUE.text()}."
                )
                raise ValueError(Code.TWO_VALUES.mark(text))
        return [leaves[leaf] for leaf in firsts]

    def answer(
        self,
        results: Sequence[object],
        inputs: Sequence[object],
        updates: Mapping[int, int],
        sizes: Collection[int],
    ) -> tuple[object, tuple[object, ...]]:
        """The outputs and the new state.

        Parameters
        ----------
        results
            The results of the flat function.
        inputs
            Its inputs.
        updates
            For the positions of updates among the results, the input that each is the new value of.
        sizes
            The inputs that are sizes.
        """
        count = len(set(self.places))
        new_state = list(inputs[count:])
        for result, position in updates.items():
            value, is_size = results[result], position in sizes
            new_state[position - count] = _state_for_jax(value, is_size=is_size)
        return self.outputs.unflatten(results[: self.outputs.num_leaves]), tuple(new_state)

    def static_argnums(self, sizes: Collection[int]) -> tuple[int, ...]:
        """The arguments that must be static under `jax.jit`, for the flat inputs that must be.

        Raises
        ------
        NotJittableError
            If an argument holds arrays beside sizes, or cannot be hashed.
        """
        found = []
        for argument, inputs in enumerate(self._inputs_of_arguments()):
            names = [self.name_of(place) for place in inputs if place in sizes]
            if not names:
                continue
            if not ({*sizes}.issuperset(inputs) and self._is_hashable(argument)):
                raise NotJittableError(
                    f"argument {argument} of {self.name} holds {', '.join(names)}, which must "
                    "be static, and cannot be static itself: "
                    f"{either(Remedy.SIZES_APART.text(), Remedy.SIZES_IN_TUPLES.text())}",
                    code=Code.SIZE_AMONG_ARRAYS,
                )
            found.append(argument)
        return tuple(found)

    def donate_argnums(self, donatable: Collection[int]) -> tuple[int, ...]:
        """The arguments all of whose leaves are among some flat inputs."""
        return tuple(
            argument
            for argument, inputs in enumerate(self._inputs_of_arguments())
            if inputs and {*donatable}.issuperset(inputs)
        )

    def name_of(self, place: int) -> str:
        """The name of a flat input."""
        firsts = self.first
        if place < len(firsts):
            return self.names[firsts[place]]
        return self.names[len(self.places) + place - len(firsts)]

    def _inputs_of_arguments(self) -> list[tuple[int, ...]]:
        """For each argument, and each part of the state, its flat inputs."""
        found, start = [], 0
        for tree in self.arguments:
            found.append(self.places[start : start + tree.num_leaves])
            start += tree.num_leaves
        count = len(set(self.places))
        return [*found, *((count + k,) for k in range(len(self.names) - len(self.places)))]

    def _is_hashable(self, argument: int) -> bool:
        if argument >= len(self.arguments):
            return True
        tree = self.arguments[argument]
        try:
            hash(tree.unflatten([0] * tree.num_leaves))
        except TypeError:
            return False
        return True


def value_for_jax(value: object, *, is_size: bool) -> Any:
    """A generator as its key, a size as a number or a tuple; anything else as it is."""
    if isinstance(value, np.random.Generator):
        return key_of_generator(value)
    if is_size:
        sizes = np.asarray(value).tolist()
        return tuple(sizes) if isinstance(sizes, list) else sizes
    return value


def is_traced(value: object) -> bool:
    """Return True if JAX traces a value, or a part of a tuple or list."""
    values = value if isinstance(value, tuple | list) else (value,)
    return any(isinstance(each, _tracer()) for each in values)


@cache
def _tracer() -> type[object]:
    from jax.core import Tracer  # at first use: importing this package does not import JAX

    return Tracer


def _state_for_jax(value: object, *, is_size: bool) -> object:
    """A new state as it can be passed again: sizes as Python's, where JAX does not trace them."""
    return value_for_jax(value, is_size=True) if is_size and not is_traced(value) else value


def _may_be_equal(one: object, other: object) -> bool:
    """Return True if two values are equal, or JAX traces them and nobody can tell."""
    if is_traced(one) or is_traced(other):
        return True
    both = np.asarray(one), np.asarray(other)
    has_nan = all(array.dtype.kind in "fc" for array in both)
    return np.array_equal(*both, equal_nan=has_nan)


def _leaves_of(skeleton: object, value: object, where: str) -> Iterator[object]:
    """The leaves of a value that has the tree of a skeleton, in the order of JAX.

    Named tuples are known by their name and fields, not by their class: that may be another one in
    the process that loads a file.

    Raises
    ------
    ValueError
        If it has another tree; the message says where.
    """
    if not is_node(skeleton):
        yield value
        return
    if not _is_alike(skeleton, value):
        text = f"{where}: expected {_shown(skeleton)}, found {_shown(value)}"
        raise ValueError(Code.CALL_OF_PURE.mark(text))
    parts = dict(_parts_of(value))
    for step, part in _in_order(skeleton):
        yield from _leaves_of(part, parts[step], f"{where}{step}")


def is_node(tree: object) -> bool:
    """Return True for a node that a file can make again."""
    return tree is None or type(tree) in (dict, OrderedDict, list, tuple) or is_named(type(tree))


def _is_alike(skeleton: Any, value: Any) -> bool:
    kind, other = type(skeleton), type(value)
    if is_named(kind) and is_named(other):
        return kind.__name__ == other.__name__ and fields_of(kind) == fields_of(other)
    if kind is not other:
        return False
    if isinstance(skeleton, dict):
        return {*skeleton} == {*value} if kind is dict else [*skeleton] == [*value]
    return skeleton is None or len(skeleton) == len(value)


def _parts_of(tree: Any) -> list[tuple[str, object]]:
    """The parts of a tree, each with the step that leads there."""
    if isinstance(tree, dict):
        return [(f"[{key!r}]", part) for key, part in tree.items()]
    if is_named(type(tree)):
        return [(f".{name}", part) for name, part in zip(fields_of(type(tree)), tree, strict=True)]
    if type(tree) in (list, tuple):
        return [(f"[{place}]", part) for place, part in enumerate(tree)]
    return []


def _in_order(tree: object) -> list[tuple[str, object]]:
    """The parts as JAX orders them: those of a dictionary by their keys."""
    if type(tree) is dict:
        return [(f"[{key!r}]", tree[key]) for key in sorted(tree)]
    return _parts_of(tree)


def is_named(kind: type) -> bool:
    """Return True for a class of named tuples."""
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def fields_of(kind: Any) -> tuple[str, ...]:
    """The names of the parts of a class of named tuples."""
    return kind._fields


def _shown(tree: Any) -> str:
    if tree is None:
        return "None"
    kind = type(tree)
    if isinstance(tree, dict):
        return f"a {kind.__name__} with the keys {', '.join(map(repr, tree)) or 'none'}"
    if is_named(kind):
        return f"a {kind.__name__} with the fields {', '.join(fields_of(kind)) or 'none'}"
    if kind in (list, tuple):
        return f"a {kind.__name__} of length {len(tree)}"
    return a_class(tree)


def a_class(value: object) -> str:
    """The class of a value, for messages."""
    kind = type(value)
    return f"a {kind.__module__}.{kind.__qualname__}"
