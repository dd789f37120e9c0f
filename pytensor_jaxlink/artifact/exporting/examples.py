"""Examples of calls of a JAX function: which leaves of the arguments are arrays, which static."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import jax
import numpy as np

from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.skeletons import (
    Leaf,
    data_of,
    describe_skeleton,
    implementation_of,
    plain_text,
    with_implementation,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy


@dataclass(frozen=True)
class Call:
    """The arguments of a call."""

    # positional as far as the signature allows it
    args: tuple[object, ...]
    kwargs: dict[str, object]
    # the positional and the keyword arguments as the user gives them
    given: tuple[tuple[object, ...], dict[str, object]]


@dataclass(frozen=True)
class Given:
    """A leaf of the arguments."""

    argument: int | str  # the argument that it is a part of, by position or keyword
    name: str  # its place, as in ``"params['w']"``
    value: object  # the value of the example
    # its array as JAX traces it, a key as its data; None where it is static
    kind: jax.ShapeDtypeStruct | None
    key: str | None = None  # the implementation of a typed key of random bits


@dataclass(frozen=True)
class Example:
    """One call."""

    # ``(arguments, keywords)``, with a mark in the place of each leaf
    skeleton: tuple[tuple[object, ...], dict[str, object]]
    given: tuple[Given, ...]  # the leaves, in their order

    @property
    def arrays(self) -> list[Given]:
        """The leaves that are arrays."""
        return [each for each in self.given if each.kind is not None]

    @property
    def static(self) -> tuple[str, ...]:
        """The static leaves, as the text by which code is found."""
        return tuple(plain_text(each.value, each.name) for each in self.given if each.kind is None)

    def check_static(self, where: str) -> None:
        """Refuse static leaves that are no plain data."""
        for each in self.given:
            if each.kind is None:
                plain_text(each.value, f"{where}: {each.name}, which is static")

    def filled(self, arrays: Sequence[object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments with other arrays."""
        rest = iter(arrays)
        leaves = [
            each.value if each.kind is None else with_implementation(next(rest), each.key)
            for each in self.given
        ]
        return jax.tree.map(lambda leaf: leaves[leaf.place], self.skeleton)


def signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    """The parameters of a function, None where Python does not know them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def calls_of(examples: object, signature: inspect.Signature | None, name: str) -> list[Call]:
    """The positional and the keyword arguments of each example.

    Raises
    ------
    ArtifactError
        If there is none, or one is no call of the function.
    """
    calls = examples if isinstance(examples, list) else [examples]
    if examples is None or not calls:
        text = f"{name} is a function of JAX. {Remedy.GIVE_EXAMPLES.text()}."
        raise ArtifactError(text, code=Code.NO_EXAMPLES)
    return [_call(each, signature, name) for each in calls]


def _call(example: object, signature: inspect.Signature | None, name: str) -> Call:
    match example:
        case tuple():
            args, kwargs = example, {}
        case dict():
            args, kwargs = (), example
        case inspect.BoundArguments():
            args, kwargs = example.args, example.kwargs
        case _:
            raise ArtifactError(
                f"{name}: an example is a tuple of arguments, a dictionary of keyword arguments, "
                f"or what inspect.signature(fn).bind(...) gives; found {example!r:.80}",
                code=Code.SAVE_ARGUMENTS,
            )
    if signature is None:
        return Call(args, kwargs, (args, kwargs))
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        text = f"{name}: an example is no call of it: {error}"
        raise ArtifactError(text, code=Code.SAVE_ARGUMENTS) from error
    return Call(bound.args, bound.kwargs, (args, kwargs))


def static_arguments(
    function: object,
    asked: int | str | Iterable[int | str],
    call: Call,
    names_of: Callable[[int], list[str]],
    where: str,
) -> set[int | str]:
    """The arguments that are static as a whole, by position and keyword.

    Those of a jitted function are those that JAX does not trace.
    """
    count = len(call.args)
    names = names_of(count)
    found: set[int | str] = set()
    for each in (asked,) if isinstance(asked, int | str) else asked:
        place = names.index(each) if each in names else each
        place = place + count if isinstance(place, int) and place < 0 else place
        if place not in call.kwargs and place not in range(count):
            text = f"{where}: static_argnums has {each!r}, which the example lacks"
            raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
        found.add(place)
    if not found and isinstance(function, jax.stages.Wrapped):
        found = _static_of_jitted(function, call, names, where)
    return found


def _static_of_jitted(
    function: jax.stages.Wrapped, call: Call, names: Sequence[str], where: str
) -> set[int | str]:
    """The arguments of a jitted function that JAX does not trace."""
    args, kwargs = call.given
    try:
        of_args, of_kwargs = function.trace(*args, **kwargs).args_info
    except Exception as error:
        raise ArtifactError(
            f"{where}: JAX cannot trace it for the example ({type(error).__name__}: "
            f"{error!s:.400}). {Remedy.STATIC_ARGNUMS.text()}.",
            code=Code.UNKNOWN_STATIC,
        ) from error
    by_name = [name for name in kwargs if name not in of_kwargs]
    places = {names.index(name) if name in names else name for name in by_name}
    return {*_left_out(args, of_args, where), *places}


def _left_out(args: Sequence[object], traced: Sequence[object], where: str) -> set[int]:
    """The positions of the arguments that JAX has left out of those that it traces."""
    kinds = [jax.tree.map(_described, each) for each in traced]
    fitting = [
        left
        for left in combinations(range(len(args)), len(args) - len(kinds))
        if [_shape_of(each) for k, each in enumerate(args) if k not in left] == kinds
    ]
    if len(fitting) != 1:
        text = f"{where} has static arguments. {Remedy.STATIC_ARGNUMS.text()}."
        raise ArtifactError(text, code=Code.UNKNOWN_STATIC)
    return {*fitting[0]}


def _described(leaf: jax.ShapeDtypeStruct) -> str:
    return f"{leaf.dtype}{leaf.shape}"


def _shape_of(tree: object) -> object:
    try:
        return jax.tree.map(lambda leaf: _described(kind_of_leaf(leaf)), tree)
    except TypeError:
        return None  # no JAX type, so not traced


class _Static:
    """An argument that is static as a whole: a leaf, whatever it is."""

    def __init__(self, value: object) -> None:
        self.value = value


def example_of(
    call: Call, static: set[int | str], names: Sequence[str], where: str, *, filters: bool
) -> Example:
    """An example as its leaves.

    ``static`` are the arguments that are static as a whole.  If the example ``filters``, all leaves
    but arrays are static, as for functions that are trees themselves; else numbers are traced.
    """
    marked = (
        tuple(_Static(each) if k in static else each for k, each in enumerate(call.args)),
        {k: _Static(each) if k in static else each for k, each in call.kwargs.items()},
    )
    given: list[Given] = []

    def mark(path: tuple[Any, ...], leaf: object) -> Leaf:
        step, rest = path[1], jax.tree_util.keystr(path[2:])
        argument: int | str = step.idx if path[0].idx == 0 else step.key
        name = (names[argument] if isinstance(argument, int) else argument) + rest
        value, kind, key = _kind_and_key(leaf, f"{where}: {name}", filters=filters)
        given.append(Given(argument, name, value, kind, key))
        return Leaf(len(given) - 1, given[-1].key)

    skeleton = jax.tree_util.tree_map_with_path(mark, marked)
    return Example(skeleton, tuple(given))


def describe_arguments(example: Example, names: Sequence[str], where: str) -> dict[str, Json]:
    """The skeletons of the arguments as JSON."""
    args, kwargs = example.skeleton
    try:
        return {
            "arguments": [
                describe_skeleton(each, f"{where}: {name}")
                for name, each in zip(names, args, strict=True)
            ],
            "keywords": {
                name: describe_skeleton(each, f"{where}: {name}") for name, each in kwargs.items()
            },
        }
    except ArtifactError as error:
        text = f"{error.text}. {Remedy.BIND_TO_FUNCTION.text()}."
        raise ArtifactError(text, code=Code.OTHER_TREE) from error


def _kind_and_key(
    leaf: object, where: str, *, filters: bool
) -> tuple[object, jax.ShapeDtypeStruct | None, str | None]:
    """A leaf with its kind, None where it is static, and the implementation of a key."""
    if isinstance(leaf, _Static):
        return leaf.value, None, None
    if isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
        return leaf, None if filters else kind_of_leaf(leaf), None
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return leaf, None, None
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ArtifactError(
                f"{where} is the type of a key, which does not tell its implementation"
            )
        keys: Any = leaf
        return leaf, kind_of_leaf(data_of(keys)), implementation_of(keys)
    try:
        return leaf, kind_of_leaf(leaf), None
    except TypeError as error:
        raise ArtifactError(f"{where} cannot be an array of JAX: {error}") from error


def kind_of_leaf(value: object) -> jax.ShapeDtypeStruct:
    """A value as JAX traces it.

    Raises
    ------
    TypeError
        If it is of no type that JAX has.
    """
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))
    kind = jax.typeof(value)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)


def parameters_of(signature: inspect.Signature | None) -> Json:
    """The parameters of a function as JSON: names, kinds, and whether there is a default."""
    if signature is None:
        return None
    return [
        [each.name, int(each.kind), each.default is not each.empty]
        for each in signature.parameters.values()
    ]


def by_name(option: str, value: object, names: Sequence[str]) -> Mapping[str, object]:
    """The option of each of several functions."""
    if isinstance(value, Mapping) and {*value} <= {*names}:
        return value
    text = f"{option} of several functions are a dictionary by their names"
    raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
