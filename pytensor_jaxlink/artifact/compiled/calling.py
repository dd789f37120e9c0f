"""Functions of trees: their arguments, the leaves of these, and their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from pytensor_jaxlink.artifact.compiled.function import LoadedFunction
from pytensor_jaxlink.artifact.compiled.leaves import leaf_converter
from pytensor_jaxlink.artifact.names import Names
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.artifact.skeletons import (
    Constant,
    Leaf,
    SkeletonReader,
    is_mark,
    marks_of,
    with_implementation,
)
from pytensor_jaxlink.artifact.values import Members
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.runtime import ARRAY
from pytensor_jaxlink.trees import Trees, is_traced

_KIND = type(inspect.Parameter.POSITIONAL_ONLY)  # an enumeration; a file has its numbers


class Calling:
    """How a function of trees is called, read from its signature."""

    def __init__(self, signature: Signature, container: Members, names: Names) -> None:
        saved = signature.trees
        assert saved is not None, "it is a function of trees"
        read = SkeletonReader(container, names).value
        arguments = tuple(map(read, saved.arguments))
        self._keywords = {name: read(each) for name, each in saved.keywords.items()}
        outputs = read(saved.outputs)
        given, marks = marks_of([*arguments, self._keywords]), marks_of([outputs])
        self.pure, self.x64, self.count = saved.pure, saved.x64, len(arguments)
        self._parameters = _parameters(saved.parameters)
        inputs = [spec for spec in signature.inputs if spec.cell is None]
        state = [spec for spec in signature.inputs if spec.cell is not None]
        if inputs + state != [*signature.inputs]:
            raise ValueError("the state of a function of trees comes after its arguments")
        _check_marks(given, len(inputs), marks, len(signature.outputs))
        if not self.pure and [leaf.place for leaf in given] != [*range(len(inputs))]:
            raise ValueError("the leaves of the arguments are not in the order of the inputs")
        self.trees = Trees(
            str(signature.name or "the function"),
            tuple(map(jax.tree.structure, arguments)),
            jax.tree.structure(self._keywords),
            jax.tree.structure(outputs),
            tuple(leaf.place for leaf in marks_of(arguments)),
            (*saved.names, *[spec.name or spec.type.text for spec in state]),
            () if saved.pure else tuple(self._positions(self.count)),
        )
        if len(saved.names) != len(given):
            raise ValueError(f"{len(saved.names)} names for {len(given)} leaves")
        self._fits = [
            leaf_converter(inputs[leaf.place], leaf.key, name, x64=self.x64)
            for leaf, name in zip(given, saved.names, strict=True)
        ]
        self._answers = None
        if marks != [Leaf(place) for place in range(len(marks))]:
            self._answers = [_answer_of(mark) for mark in marks]

    def values(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[object]:
        """The values of the leaves, for a function whose leaves are inputs of their own.

        Raises `TypeError` if an argument is missing, unknown or of another type, and `ValueError`
        if it has another tree; the message says where it is.
        """
        if kwargs or self._keywords or len(args) != self.count:
            args, kwargs = self._bound(args, kwargs)
        leaves = self.trees.leaves(args, kwargs)
        return [fit(leaf) for fit, leaf in zip(self._fits, leaves, strict=True)]

    def answer(self, results: Sequence[object]) -> Any:
        """The results as a tree."""
        if self._answers is not None:
            results = [make(results) for make in self._answers]
        return self.trees.outputs.unflatten(results)

    def _bound(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[tuple[object, ...], Mapping[str, object]]:
        """The arguments as they were given when the function was saved."""
        name = self.trees.name
        if self._parameters is not None:
            try:
                bound = self._parameters.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(Code.CALL_OF_LOADED.mark(f"{name}: {error}")) from None
            args, kwargs = bound.args, bound.kwargs
        if len(args) != self.count or {*kwargs} != {*self._keywords}:
            expected, found = (
                ", ".join([*self._positions(count), *sorted(others)]) or "none"
                for count, others in ((self.count, self._keywords), (len(args), kwargs))
            )
            text = f"{name} was saved for the arguments {expected}; found {found}"
            raise TypeError(Code.CALL_OF_LOADED.mark(text))
        return args, kwargs

    def _positions(self, count: int) -> list[str]:
        """The names of positional arguments."""
        parameters = self._parameters.parameters.values() if self._parameters else ()
        return position_names(parameters, count)


def check_trees(signature: Signature, data: Members) -> None:
    """Raise `ArtifactError` if the trees of a signature cannot be read again."""
    try:
        Calling(signature, data, Names())
    except Exception as error:
        reason = error.text if isinstance(error, ArtifactError) else error
        raise ArtifactError(f"{signature.name}: its trees cannot be kept: {reason}") from error


def position_names(parameters: Iterable[inspect.Parameter], count: int) -> list[str]:
    """The names of positional arguments, by the parameters of the function."""
    named = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return [named[k] if k < len(named) else f"args[{k}]" for k in range(count)]


def _parameters(described: Sequence[tuple[str, int, bool]] | None) -> inspect.Signature | None:
    if described is None:
        return None
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(name, _KIND(kind), default=None if has_default else empty)
            for name, kind, has_default in described
        ]
    )


def _check_marks(given: Sequence[Any], inputs: int, returned: Sequence[Any], outputs: int) -> None:
    """Raise `ValueError` unless the leaves are the inputs and outputs, all of them."""
    if not all(type(leaf) is Leaf for leaf in given):
        raise ValueError("an argument holds what is no leaf")
    if {leaf.place for leaf in given} != {*range(inputs)}:
        raise ValueError(f"the leaves of the arguments are not the {inputs} inputs")
    if not all(map(is_mark, returned)):
        raise ValueError("the results hold what is no leaf")
    places = {mark.place for mark in returned if type(mark) is Leaf}
    if places != {*range(outputs)}:
        raise ValueError(f"the leaves of the results are not the {outputs} outputs")


def _answer_of(mark: Leaf | Constant) -> Callable[[Sequence[Any]], object]:
    """A function that takes the value of a leaf from the results."""
    if isinstance(mark, Constant):
        return lambda results: mark.value
    return lambda results: with_implementation(results[mark.place], mark.key)


class TreeFunction(LoadedFunction):
    """A saved function of JAX: arguments and results are trees, as the saved one has them.

    It reads the arrays that it was saved with, `state`.
    """

    def __init__(self, calling: Calling, *parts: Any) -> None:
        super().__init__(*parts)
        self._calling, self.trees = calling, calling.trees

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Evaluate the function; with values that JAX traces, trace it."""
        values = self._calling.values(args, kwargs)
        if any(type(value) is not ARRAY and is_traced(value) for value in values):
            state = [cell[0] for cell in self.interface.storage[len(values) :]]
            return self._calling.answer(super().jax_fn(*values, *state))
        return self._calling.answer(super().__call__(*values))

    @property
    def jax_fn(self) -> Callable[..., Any]:
        """The pure function ``(*arguments, *state, **keywords) -> results``, of trees."""
        return self._with_state

    def _with_state(self, *args: object, **kwargs: object) -> object:
        count = self._calling.count
        state = args[count:]
        if len(state) != len(self.state):
            text = (
                f"{self.trees.name} takes {count} positional arguments, then the values of "
                f"{len(self.state)} arrays; found {len(args)}"
            )
            raise TypeError(Code.CALL_OF_PURE.mark(text))
        values = self._calling.values(args[:count], kwargs)
        return self._calling.answer(super().jax_fn(*values, *state))

    def _pure_arguments(self, values: Sequence[object]) -> Sequence[object]:
        """The leaves, which have been converted."""
        return values

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the leaves of the arguments, then of the state."""
        return self.trees.names

    @property
    def static_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` that must be static under `jax.jit`.

        Raises
        ------
        NotJittableError
            If an argument holds arrays beside static values.
        """
        return self.trees.static_argnums(self._static_inputs())

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The arguments of `jax_fn` all of whose leaves may be donated to `jax.jit`."""
        return self.trees.donate_argnums(self._donatable_inputs())
