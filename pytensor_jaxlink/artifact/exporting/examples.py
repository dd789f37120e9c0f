"""Examples of calls of a JAX function: which leaves of the arguments are arrays, which static."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import jax
import numpy as np

from pytensor_jaxlink.artifact.compiled.calling import position_names
from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.signature import SavedTrees
from pytensor_jaxlink.artifact.skeletons import (
    Leaf,
    describe_skeleton,
    implementation_of,
    key_data_of,
    plain_text,
    with_implementation,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.remedies import Remedy

NUMBER = bool | int | float | complex


class _Call(NamedTuple):
    args: tuple[object, ...]  # positional as far as the signature allows it
    kwargs: dict[str, object]
    given: tuple[tuple[object, ...], dict[str, object]]  # as the user gives them


@dataclass(frozen=True)
class Given:
    """A leaf of the arguments."""

    name: str  # its place, as in ``"params['w']"``
    value: object
    kind: jax.ShapeDtypeStruct | None  # as JAX traces it, a key as its data; None if it is static
    key: str | None = None  # the implementation of a typed key of random bits

    @property
    def type(self) -> tuple[int, str] | None:
        """The rank and the dtype; None if it is static."""
        return None if self.kind is None else (len(self.kind.shape), str(self.kind.dtype))


@dataclass(frozen=True)
class Example:
    """One call."""

    # ``(arguments, keywords)``, with a mark in the place of each leaf
    skeleton: tuple[tuple[object, ...], dict[str, object]]
    given: tuple[Given, ...]  # the leaves, in their order
    where: str

    @property
    def arrays(self) -> list[tuple[Given, jax.ShapeDtypeStruct]]:
        """The leaves that are arrays, with their kinds."""
        return [(each, each.kind) for each in self.given if each.kind is not None]

    @property
    def static(self) -> tuple[str, ...]:
        """The static leaves, as the text by which code is found.

        Raises
        ------
        ArtifactError
            If one is no plain data.
        """
        return tuple(
            plain_text(each.value, f"{self.where}: {each.name}, which is static")
            for each in self.given
            if each.kind is None
        )

    def filled(self, arrays: Sequence[jax.Array]) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments with other arrays."""
        rest = iter(arrays)
        leaves = [
            each.value if each.kind is None else with_implementation(next(rest), each.key)
            for each in self.given
        ]
        return jax.tree.map(lambda leaf: leaves[leaf.place], self.skeleton)


def examples_of(
    function: Callable[..., object], given: object, asked: Any, where: str, *, filters: bool
) -> tuple[list[Example], SavedTrees]:
    """The calls that a user has given, and the trees of their arguments, without any of results.

    If the function ``filters``, all leaves but arrays are static, as for functions that are trees
    themselves; else numbers are traced.

    Raises
    ------
    ArtifactError
        If there is none, one is no call of the function, or holds what a file cannot keep.
    """
    signature = _signature_of(function)
    parameters = [] if signature is None else [*signature.parameters.values()]
    calls = given if isinstance(given, list) else [given]
    if given is None or not calls:
        text = f"{where} is a function of JAX. {Remedy.GIVE_EXAMPLES.text()}."
        raise ArtifactError(text, code=Code.NO_EXAMPLES)
    found: list[Example] = []
    for example in calls:
        call = _call(example, signature, where)
        names = position_names(parameters, len(call.args))
        static = _static_arguments(function, asked, call, names, where)
        found.append(_example_of(call, static, names, where, filters=filters))
    arguments, keywords = _describe_arguments(found[0], parameters)
    described = tuple((p.name, int(p.kind), p.default is not p.empty) for p in parameters)
    names = tuple(each.name for each in found[0].given)
    for example in found:
        _ = example.static  # or the error
    of_python = None if signature is None else described
    return found, SavedTrees(arguments, keywords, None, of_python, names, x64=True, pure=False)


def _signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # Python does not know them


def _call(example: object, signature: inspect.Signature | None, where: str) -> _Call:
    match example:
        case tuple():
            args, kwargs = example, {}
        case dict():
            args, kwargs = (), example
        case inspect.BoundArguments():
            args, kwargs = example.args, example.kwargs
        case _:
            raise ArtifactError(
                f"{where}: an example is a tuple of arguments, a dictionary of keyword arguments, "
                f"or what inspect.signature(fn).bind(...) gives; found {example!r:.80}",
                code=Code.SAVE_ARGUMENTS,
            )
    if signature is None:
        return _Call(args, kwargs, (args, kwargs))
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        text = f"{where}: an example is no call of it: {error}"
        raise ArtifactError(text, code=Code.SAVE_ARGUMENTS) from error
    return _Call(bound.args, bound.kwargs, (args, kwargs))


# -- arguments that are static as a whole ----------------------------------------------------------


class _Static(NamedTuple):
    """Such an argument: a leaf, whatever it is."""

    value: object


def _static_arguments(
    function: object,
    asked: int | str | Iterable[int | str],
    call: _Call,
    names: Sequence[str],
    where: str,
) -> set[int | str]:
    """By position and keyword; of a jitted function those that JAX does not trace."""
    count = len(call.args)
    found: set[int | str] = set()
    for each in (asked,) if isinstance(asked, int | str) else asked:
        place = names.index(each) if each in names else each
        place = place + count if isinstance(place, int) and place < 0 else place
        if place not in call.kwargs and place not in range(count):
            text = f"{where}: static_argnums has {each!r}, which the example lacks"
            raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
        found.add(place)
    if found or not isinstance(function, jax.stages.Wrapped):
        return found
    args, kwargs = call.given
    try:
        of_args, of_kwargs = function.trace(*args, **kwargs).args_info
    except Exception as error:
        raise not_traced(where, error) from error
    by_name = [name for name in kwargs if name not in of_kwargs]
    places = {names.index(name) if name in names else name for name in by_name}
    return {*_left_out(args, of_args, where), *places}


def not_traced(where: str, error: Exception) -> ArtifactError:
    """The error about a function that JAX cannot trace for its example."""
    return ArtifactError(
        f"{where}: JAX cannot trace it for the example ({type(error).__name__}: "
        f"{error!s:.400}). {Remedy.STATIC_ARGNUMS.text()}.",
        code=Code.UNKNOWN_STATIC,
    )


def _left_out(args: Sequence[object], traced: Sequence[object], where: str) -> set[int]:
    """The positions of the arguments that JAX has left out of those that it traces."""
    kinds = [jax.tree.map(_described, each) for each in traced]
    fitting = [
        left
        for left in combinations(range(len(args)), len(args) - len(kinds))
        if [_kinds_of(each) for k, each in enumerate(args) if k not in left] == kinds
    ]
    if len(fitting) != 1:
        text = f"{where} has static arguments. {Remedy.STATIC_ARGNUMS.text()}."
        raise ArtifactError(text, code=Code.UNKNOWN_STATIC)
    return {*fitting[0]}


def _described(leaf: jax.ShapeDtypeStruct) -> str:
    return f"{leaf.dtype}{leaf.shape}"


def _kinds_of(tree: object) -> object:
    try:
        return jax.tree.map(lambda leaf: _described(traced_kind(leaf)), tree)
    except TypeError:
        return None  # no JAX type, so not traced


# -- leaves ----------------------------------------------------------------------------------------


def _example_of(
    call: _Call, static: set[int | str], names: Sequence[str], where: str, *, filters: bool
) -> Example:
    marked = (
        tuple(_Static(each) if k in static else each for k, each in enumerate(call.args)),
        {k: _Static(each) if k in static else each for k, each in call.kwargs.items()},
    )
    given: list[Given] = []

    def mark(path: tuple[Any, ...], leaf: object) -> Leaf:
        step, rest = path[1], jax.tree_util.keystr(path[2:])
        argument = names[int(step.idx)] if path[0].idx == 0 else str(step.key)
        given.append(_given(argument + rest, leaf, where, filters=filters))
        return Leaf(len(given) - 1, given[-1].key)

    skeleton = jax.tree_util.tree_map_with_path(
        mark, marked, is_leaf=lambda tree: isinstance(tree, _Static)
    )
    return Example(skeleton, tuple(given), where)


def _given(name: str, leaf: object, where: str, *, filters: bool) -> Given:
    if isinstance(leaf, _Static):
        return Given(name, leaf.value, None)
    if isinstance(leaf, NUMBER) and not isinstance(leaf, np.generic):
        return Given(name, leaf, None if filters else traced_kind(leaf))
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct):
        return Given(name, leaf, None)
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ArtifactError(
                f"{where}: {name} is the type of a key, which does not tell its implementation"
            )
        keys: Any = leaf
        return Given(name, leaf, traced_kind(key_data_of(keys)), implementation_of(keys))
    try:
        return Given(name, leaf, traced_kind(leaf))
    except TypeError as error:
        text = f"{where}: {name} cannot be an array of JAX: {error}"
        raise ArtifactError(text) from error


def traced_kind(value: object) -> jax.ShapeDtypeStruct:
    """A value as JAX traces it; `TypeError` if it is of no type that JAX has."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype))
    kind = jax.typeof(value)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)


def _describe_arguments(
    example: Example, parameters: Sequence[inspect.Parameter]
) -> tuple[tuple[Json, ...], dict[str, Json]]:
    """The skeletons of the arguments as JSON, those given by position and by name."""
    args, kwargs = example.skeleton
    names = position_names(parameters, len(args))
    named = [*zip(names, args, strict=True), *kwargs.items()]
    try:
        found = [describe_skeleton(each, f"{example.where}: {name}") for name, each in named]
    except ArtifactError as error:
        text = f"{error.text}. {Remedy.BIND_TO_FUNCTION.text()}."
        raise ArtifactError(text, code=Code.OTHER_TREE) from error
    count = len(args)
    return tuple(found[:count]), dict(zip(kwargs, found[count:], strict=True))


def by_name(option: str, value: object, names: Sequence[str]) -> Mapping[str, object]:
    """The option of each of several functions."""
    if isinstance(value, Mapping) and {*value} <= {*names}:
        return value
    text = f"{option} of several functions are a dictionary by their names"
    raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
