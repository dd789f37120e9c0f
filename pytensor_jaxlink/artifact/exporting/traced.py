"""Any function that JAX can trace: its code for some examples, its arrays, and its trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from pytensor_jaxlink.artifact.arrays import check_dtype, is_extended
from pytensor_jaxlink.artifact.compiled.calling import position_names
from pytensor_jaxlink.artifact.compiled.operations import ForeignCodeError
from pytensor_jaxlink.artifact.compiled.saved_regions import Leaf as Kinds
from pytensor_jaxlink.artifact.compiled.saved_regions import Specialisation
from pytensor_jaxlink.artifact.exporting.dimensions import lengths_said
from pytensor_jaxlink.artifact.exporting.examples import (
    Example,
    calls_of,
    describe_arguments,
    example_of,
    kind_of_leaf,
    parameters_of,
    signature_of,
    static_arguments,
)
from pytensor_jaxlink.artifact.exporting.held import (
    Held,
    Key,
    is_tree,
    large_constants,
    with_arguments,
)
from pytensor_jaxlink.artifact.exporting.region_export import (
    NoBackwardError,
    NotSymbolicError,
    Target,
    export_for_dimensions,
    export_for_shapes,
)
from pytensor_jaxlink.artifact.signature import Input, Kind, Output, Signature
from pytensor_jaxlink.artifact.skeletons import (
    Constant,
    Leaf,
    data_of,
    describe_skeleton,
    implementation_of,
    with_implementation,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.plan import Plan, Region
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.typed_jax import configuration


@dataclass(frozen=True)
class Results:
    """The results of a function for an example: the kind of each array, and the tree of all.

    Results of other shapes are equal.
    """

    kinds: tuple[tuple[int, str], ...]
    names: tuple[str, ...]
    skeleton: object
    shapes: tuple[tuple[int, ...], ...] = field(compare=False)


class TracedFunction:
    """A function of JAX with examples of its calls.

    It has its ``state``, the arrays that it brings along (keys of random bits as their data), with
    ``state_names``.
    """

    def __init__(
        self, name: str, function: Callable[..., object], examples: object, static_argnums: Any
    ) -> None:
        self.name = name or _name_of(function)
        self._x64 = bool(configuration.jax_enable_x64)
        self._parameters = signature_of(function)
        calls = calls_of(examples, self._parameters, self.name)
        self._filters = is_tree(function)
        static = [
            static_arguments(function, static_argnums, call, self._position_names, self.name)
            for call in calls
        ]
        self._names = self._position_names(len(calls[0].args))
        self.examples = [
            example_of(call, which, self._names, self.name, filters=self._filters)
            for call, which in zip(calls, static, strict=True)
        ]
        self._arguments = describe_arguments(self.examples[0], self._names, self.name)
        for example in self.examples:
            example.check_static(self.name)
        self._held = Held.by(_unjitted(function))
        self._keys: list[Key] = []
        constants: dict[Key, jax.Array] = {}
        self._donated: set[str] = set()
        if isinstance(function, jax.stages.Wrapped):  # which `_held` is not
            jitted, _ = self._traced(self.examples[0], function)
            self._donated |= self._donated_in(jitted, self.examples[0])
        found: list[Results] = []
        for example in self.examples:
            closed, results = self._traced(example)
            self._donated |= self._donated_in(closed, example)
            found.append(results)
            self._check_alike(example, found)
            constants |= large_constants(closed)
        self._results = found[0]
        self._shapes = [each.shapes for each in found]
        self._keys = list(constants)
        self.state = [*map(data_of, self._held.arrays), *constants.values()]
        self.state_names = [
            *self._held.names,
            *(f"constant {number}" for number in range(len(constants))),
        ]
        for array, state_name in zip(self.state, self.state_names, strict=True):
            if not is_extended(array.dtype):
                check_dtype(array.dtype, f"{self.name}: {state_name}")

    def _position_names(self, count: int) -> list[str]:
        parameters = () if self._parameters is None else self._parameters.parameters.values()
        return position_names(parameters, count)

    # -- tracing -------------------------------------------------------------------------------

    def _trace(
        self,
        example: Example,
        kinds: Sequence[object],
        function: Callable[..., object] | None = None,
    ) -> tuple[ClosedJaxpr, Results]:
        """The function, or another one, for arguments of some shapes, as JAX traces it."""
        found: list[Results] = []

        def flat(*values: jax.Array) -> list[jax.Array]:
            arrays, state = values[: len(kinds)], values[len(kinds) :]
            args, kwargs = example.filled(arrays)
            called = self._function(state) if function is None else function
            arrays, results = self._flattened(called(*args, **kwargs))
            found.append(results)
            return arrays

        closed = jax.make_jaxpr(flat)(*kinds, *map(_kind_of_state, self._held.arrays))
        return closed, found[-1]

    def _traced(
        self, example: Example, function: Callable[..., object] | None = None
    ) -> tuple[ClosedJaxpr, Results]:
        """The same for an example."""
        try:
            return self._trace(example, [each.kind for each in example.arrays], function)
        except ArtifactError:
            raise
        except Exception as error:
            raise ArtifactError(
                f"{self.name}: JAX cannot trace it for the example ({type(error).__name__}: "
                f"{error!s:.400}). {Remedy.STATIC_ARGNUMS.text()}.",
                code=Code.UNKNOWN_STATIC,
            ) from error

    def _function(self, state: Sequence[jax.Array]) -> Callable[..., object]:
        """The function with other arrays."""
        pairs = zip(self._held.arrays, state, strict=True)
        return self._held.rebuilt(
            [with_implementation(value, implementation_of(array)) for array, value in pairs]
        )

    def _flattened(self, results: object) -> tuple[list[jax.Array], Results]:
        """The arrays among the results, and what they are."""
        arrays: list[jax.Array] = []
        names: list[str] = []

        def mark(path: tuple[object, ...], leaf: object) -> Constant | Leaf:
            where = "outputs" + jax.tree_util.keystr(path)
            number = isinstance(leaf, bool | int | float | complex)
            is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic)
            if not (is_array or (number and not self._filters)):
                return Constant(leaf)
            array = jax.numpy.asarray(leaf)
            key = implementation_of(array)
            arrays.append(data_of(array))
            names.append(where)
            return Leaf(len(arrays) - 1, key)

        skeleton = jax.tree_util.tree_map_with_path(mark, results)
        describe_skeleton(skeleton, f"{self.name}: outputs")
        kinds = tuple((array.ndim, str(array.dtype)) for array in arrays)
        shapes = tuple(array.shape for array in arrays)
        return arrays, Results(kinds, tuple(names), skeleton, shapes)

    def __call__(self, static: object, *values: jax.Array) -> tuple[list[object], tuple[()]]:
        """The arrays of the results, for `jax.export`; there are no conditions."""
        example = next(each for each in self.examples if each.static == static)
        arrays = example.arrays
        kinds = [
            jax.ShapeDtypeStruct(value.shape, given.kind.dtype, weak_type=given.kind.weak_type)
            for value, given in zip(values, arrays, strict=False)
            if given.kind is not None
        ]
        closed, _ = self._trace(example, kinds)
        count = len(arrays) + len(self._held.arrays)
        replaced = dict(zip(self._keys, values[count:], strict=True))
        return with_arguments(closed, replaced, values[:count]), ()

    # -- donation and examples -----------------------------------------------------------------

    def _donated_in(self, closed: ClosedJaxpr, example: Example) -> set[str]:
        """The leaves that are given to a jitted function inside, which donates them."""
        names = dict(zip(closed.jaxpr.invars, [each.name for each in example.arrays], strict=False))
        return {
            names[variable]
            for equation in closed.jaxpr.eqns
            for variable, donated in zip(
                equation.invars, equation.params.get("donated_invars", ()), strict=False
            )
            if donated and not hasattr(variable, "val") and variable in names
        }

    def _check_alike(self, example: Example, results: Sequence[Results]) -> None:
        """Refuse examples of another tree than the first."""
        first = self.examples[0]
        pairs = (
            ("arguments", first.skeleton, example.skeleton),
            ("types of arguments", _types(first), _types(example)),
            ("trees of results", results[0].skeleton, results[-1].skeleton),
            ("types of results", results[0].kinds, results[-1].kinds),
        )
        for what, one, other in pairs:
            if one != other:
                raise ArtifactError(
                    f"{self.name}: two examples have other {what}: {one!s:.150}, {other!s:.150}. "
                    f"{Remedy.SEVERAL_FUNCTIONS.text()}.",
                    code=Code.EXAMPLES_DIFFER,
                )

    # -- writing -------------------------------------------------------------------------------

    def signature(self, cells: Sequence[int], dims: Mapping[str, object]) -> Signature:
        """How it is called; its arrays are in these cells."""
        for each in self.examples[0].given:
            if each.kind is None and each.name in dims:
                text = f"{self.name}: dims names {each.name}, which is static"
                raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
        inputs = [
            Input(
                each.name,
                Kind("other", "static") if each.kind is None else self._kind(place, dims),
                mutable=each.name in self._donated,
                strict=True,
            )
            for place, each in enumerate(self.examples[0].given)
        ]
        state = [
            Input(name, array_kind(array.shape, array.dtype), cell=cell)
            for name, array, cell in zip(self.state_names, self.state, cells, strict=True)
        ]
        shapes = [_common(each, is_open=bool(dims)) for each in zip(*self._shapes, strict=True)]
        outputs = [
            Output(name, array_kind(shape, dtype))
            for name, shape, (_, dtype) in zip(
                self._results.names, shapes, self._results.kinds, strict=True
            )
        ]
        trees = {
            **self._arguments,
            "outputs": describe_skeleton(self._results.skeleton, f"{self.name}: outputs"),
            "parameters": parameters_of(self._parameters),
            "names": [each.name for each in self.examples[0].given],
            "x64": self._x64,
            "pure": False,
        }
        return Signature(
            (*inputs, *state), tuple(outputs), "list", self.name, False, {}, ((), (), ()), trees
        )

    def _kind(self, place: int, dims: Mapping[str, object]) -> Kind:
        """The type of an argument, for all examples."""
        kinds = [each.given[place].kind for each in self.examples]
        shapes = [kind.shape for kind in kinds if kind is not None]
        lengths = _common(shapes)
        first = self.examples[0].given[place]
        assert first.kind is not None
        names = _lengths(dims.get(first.name), first.kind.shape, first.name)
        open_ = [
            n if isinstance(name, int) else None for name, n in zip(names, lengths, strict=True)
        ]
        return array_kind(open_, first.kind.dtype)

    @property
    def plan(self) -> Plan:
        """One region."""
        given, count = self.examples[0].given, len(self._results.kinds)
        first = len(given) + len(self.state)
        places = range(len(given))
        region = Region(
            0,
            tuple(k for k in places if given[k].kind is None),
            (*(k for k in places if given[k].kind is not None), *range(len(given), first)),
            tuple(range(first, first + count)),
            (self.name,),
        )
        names = (*[each.name for each in given], *self.state_names, *self._results.names)
        inputs, outputs = tuple(range(first)), tuple(range(first, first + count))
        return Plan(inputs, outputs, (), (region,) if count else (), names)

    def code(self, dims: Mapping[str, object] | None, target: Target) -> list[Specialisation]:
        """The code for the shapes of the examples, then for open dimensions."""
        target = replace(target, x64=self._x64)
        state = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in self.state]
        found: list[Specialisation] = []
        for example in self.examples:
            kinds = [_strong(each.kind) for each in example.given if each.kind is not None]
            if all(each.why_not(example.static, [*kinds, *state]) for each in found):
                found.append(
                    self._exported(export_for_shapes, example.static, [*kinds, *state], target)
                )
        for example in self.examples if dims else ():
            if any(each.is_open and each.static == example.static for each in found):
                continue
            leaves: list[Kinds] = [
                (_lengths((dims or {}).get(each.name), kind.shape, each.name), str(kind.dtype))
                for each in example.arrays
                if (kind := each.kind) is not None
            ]
            leaves += [(tuple(array.shape), str(array.dtype)) for array in self.state]
            if any(isinstance(length, str) for shape, _ in leaves for length in shape):
                open_, _ = self._exported(export_for_dimensions, example.static, leaves, (), target)
                found.append(open_)
        return found

    def _exported(self, export: Callable[..., object], *parts: object) -> Any:
        """Code, or the error that names the function."""
        try:
            return export(self, *parts)
        except NotSymbolicError as error:
            raise ArtifactError(
                f"{self.name}: there is no code for the dimensions that dims opens: {error}",
                code=Code.NOT_EXPORTED,
            ) from error
        except NoBackwardError as error:
            raise ArtifactError(
                f"{self.name}: JAX cannot differentiate it backward, because it has no reverse "
                "mode for a loop that ends by a condition. Save with vjp_order=0.",
                code=Code.NO_REVERSE_MODE,
            ) from error
        except ForeignCodeError as error:
            text = f"{self.name}: the code holds {error}"
            raise ArtifactError(text, code=Code.NOT_EXPORTED) from error
        except ArtifactError:
            raise
        except Exception as error:
            raise ArtifactError(
                f"{self.name}: JAX cannot export it ({type(error).__name__}: {error!s:.300})",
                code=Code.NOT_EXPORTED,
            ) from error


def array_kind(shape: Sequence[int | None], dtype: object) -> Kind:
    """The type of an array."""
    text = ", ".join("?" if length is None else str(length) for length in shape)
    return Kind("array", f"{dtype}[{text}]", str(dtype), tuple(shape))


def _name_of(function: Any) -> str:
    """The name of the function that was written, under partials and decorators."""
    while not isinstance(getattr(function, "__name__", None), str):
        inner = getattr(function, "__wrapped__", getattr(function, "func", None))
        if inner is None:
            return type(function).__name__
        function = inner
    return function.__name__


def _unjitted(function: Any) -> Any:
    """The function that `jax.jit` was given: its options are kept beside the code."""
    while isinstance(function, jax.stages.Wrapped):
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return function


def _kind_of_state(array: jax.Array) -> jax.ShapeDtypeStruct:
    return kind_of_leaf(data_of(array))


def _strong(kind: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype)


def _types(example: Example) -> list[tuple[int, str] | None]:
    return [
        None if each.kind is None else (len(each.kind.shape), str(each.kind.dtype))
        for each in example.given
    ]


def _common(shapes: Sequence[Sequence[int]], *, is_open: bool = False) -> list[int | None]:
    """The lengths that some shapes of one rank have in common, None for the others."""
    return [
        None if is_open or len({*lengths}) > 1 else lengths[0]
        for lengths in zip(*shapes, strict=True)
    ]


def _lengths(said: Any, shape: Sequence[int], name: str) -> tuple[int | str, ...]:
    """The lengths of an argument; None is that of the example."""
    asked = lengths_said(said, len(shape), name)
    return tuple(n if length is None else length for length, n in zip(asked, shape, strict=True))
