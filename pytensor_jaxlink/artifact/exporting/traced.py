"""Any function that JAX can trace: its code for some examples, its arrays, and its trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from pytensor_jaxlink.artifact.arrays import check_dtype, is_extended
from pytensor_jaxlink.artifact.compiled.operations import ForeignCodeError
from pytensor_jaxlink.artifact.compiled.saved_regions import ArrayKind, Specialisation
from pytensor_jaxlink.artifact.exporting import held, region_export
from pytensor_jaxlink.artifact.exporting.dimensions import lengths_said
from pytensor_jaxlink.artifact.exporting.examples import (
    NUMBER,
    Example,
    examples_of,
    not_traced,
    traced_kind,
)
from pytensor_jaxlink.artifact.signature import Input, Output, Signature
from pytensor_jaxlink.artifact.skeletons import (
    Constant,
    Leaf,
    describe_skeleton,
    implementation_of,
    key_data_of,
    with_implementation,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.plan import Executable, Kind, Plan, Region
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime.typed_jax import configuration


@dataclass(frozen=True)
class Results:
    """The results of a function for an example; those of other shapes are equal."""

    kinds: tuple[tuple[int, str], ...]  # of the arrays
    names: tuple[str, ...]
    skeleton: object  # the tree of all
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
        self._filters = held.is_tree(function)
        self.examples, self._arguments = examples_of(
            function, examples, static_argnums, self.name, filters=self._filters
        )
        self._held = held.Held.by(_unjitted(function))
        self._keys: list[held.Key] = []
        constants: dict[held.Key, jax.Array] = {}
        self._donated: set[str] = set()
        if isinstance(function, jax.stages.Wrapped):  # which `_held` is not
            jitted, _ = self._traced(self.examples[0], function)
            self._donated |= _donated_in(jitted, self.examples[0])
        self._results: list[Results] = []
        for example in self.examples:
            closed, results = self._traced(example)
            self._donated |= _donated_in(closed, example)
            self._check_alike(example, results)
            self._results.append(results)
            constants |= held.large_constants(closed)
        self._keys = list(constants)
        self.state = [*map(key_data_of, self._held.arrays), *constants.values()]
        numbered = (f"constant {number}" for number in range(len(constants)))
        self.state_names = [*self._held.names, *numbered]
        for array, state_name in zip(self.state, self.state_names, strict=True):
            if not is_extended(array.dtype):
                check_dtype(array.dtype, f"{self.name}: {state_name}")

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

        state = (traced_kind(key_data_of(array)) for array in self._held.arrays)
        return jax.make_jaxpr(flat)(*kinds, *state), found[-1]

    def _traced(
        self, example: Example, function: Callable[..., object] | None = None
    ) -> tuple[ClosedJaxpr, Results]:
        """The same for an example."""
        try:
            return self._trace(example, [kind for _, kind in example.arrays], function)
        except ArtifactError:
            raise
        except Exception as error:
            raise not_traced(self.name, error) from error

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
            is_array = isinstance(leaf, jax.Array | np.ndarray | np.generic)
            if not (is_array or (isinstance(leaf, NUMBER) and not self._filters)):
                return Constant(leaf)
            array = jax.numpy.asarray(leaf)
            arrays.append(key_data_of(array))
            names.append("outputs" + jax.tree_util.keystr(path))
            return Leaf(len(arrays) - 1, implementation_of(array))

        skeleton = jax.tree_util.tree_map_with_path(mark, results)
        describe_skeleton(skeleton, f"{self.name}: outputs")
        kinds = tuple((array.ndim, str(array.dtype)) for array in arrays)
        return arrays, Results(
            kinds, tuple(names), skeleton, tuple(array.shape for array in arrays)
        )

    def __call__(self, static: object, *values: jax.Array) -> tuple[list[object], tuple[()]]:
        """The arrays of the results, for `jax.export`; there are no conditions."""
        example = next(each for each in self.examples if each.static == static)
        arrays = example.arrays
        kinds = [
            jax.ShapeDtypeStruct(value.shape, kind.dtype, weak_type=kind.weak_type)
            for value, (_, kind) in zip(values, arrays, strict=False)
        ]
        closed, _ = self._trace(example, kinds)
        count = len(arrays) + len(self._held.arrays)
        replaced = dict(zip(self._keys, values[count:], strict=True))
        return held.with_arguments(closed, replaced, values[:count]), ()

    def _check_alike(self, example: Example, results: Results) -> None:
        """Refuse examples of another tree than the first."""
        if not self._results:
            return
        first, before = self.examples[0], self._results[0]
        types = [[each.type for each in one.given] for one in (first, example)]
        pairs = (
            ("arguments", first.skeleton, example.skeleton),
            ("types of arguments", *types),
            ("trees of results", before.skeleton, results.skeleton),
            ("types of results", before.kinds, results.kinds),
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
        inputs = [
            Input(
                each.name, self._kind(place, dims), mutable=each.name in self._donated, strict=True
            )
            for place, each in enumerate(self.examples[0].given)
        ]
        state = [
            Input(name, array_kind(array.shape, array.dtype), cell=cell)
            for name, array, cell in zip(self.state_names, self.state, cells, strict=True)
        ]
        found = self._results[0]
        shapes = [
            [None] * len(each[0]) if dims else _common(each)
            for each in zip(*(each.shapes for each in self._results), strict=True)
        ]
        outputs = [
            Output(name, array_kind(shape, dtype))
            for name, shape, (_, dtype) in zip(found.names, shapes, found.kinds, strict=True)
        ]
        results = describe_skeleton(found.skeleton, f"{self.name}: outputs")
        trees = replace(self._arguments, outputs=results, x64=self._x64)
        return Signature(
            (*inputs, *state), tuple(outputs), "list", self.name, False, {}, ((), (), ()), trees
        )

    def _kind(self, place: int, dims: Mapping[str, object]) -> Kind:
        """The type of an argument, for all examples."""
        first = self.examples[0].given[place]
        if first.kind is None:
            if first.name in dims:
                text = f"{self.name}: dims names {first.name}, which is static"
                raise ArtifactError(text, code=Code.SAVE_ARGUMENTS)
            return Kind("other", "static")
        kinds = (each.given[place].kind for each in self.examples)
        common = _common([kind.shape for kind in kinds if kind is not None])
        said = _lengths(dims, first.name, first.kind.shape)
        is_open = [isinstance(length, str) for length in said]
        shape = [None if open_ else n for open_, n in zip(is_open, common, strict=True)]
        return array_kind(shape, first.kind.dtype)

    @property
    def executable(self) -> Executable:
        """One region."""
        given, found = self.examples[0].given, self._results[0]
        first = len(given) + len(self.state)
        results = tuple(range(first, first + len(found.kinds)))
        region = Region(
            0,
            tuple(k for k, each in enumerate(given) if each.kind is None),
            (
                *(k for k, each in enumerate(given) if each.kind is not None),
                *range(len(given), first),
            ),
            results,
            (self.name,),
        )
        names = (*[each.name for each in given], *self.state_names, *found.names)
        steps = (region,) if results else ()
        plan = Plan(tuple(range(first)), results, (), steps, names)
        return Executable(plan, (self,) * len(steps), {})

    def code(
        self, dims: Mapping[str, object], target: region_export.Target
    ) -> list[Specialisation]:
        """The code for the shapes of the examples, then for open dimensions."""
        target = replace(target, x64=self._x64)
        groups: dict[tuple[str, ...], list[Example]] = {}
        for example in self.examples:
            groups.setdefault(example.static, []).append(example)
        return [
            code
            for static, examples in groups.items()
            for code in self._code_for(static, examples, dims, target)
        ]

    def _code_for(
        self,
        static: tuple[str, ...],
        examples: Sequence[Example],
        dims: Mapping[str, object],
        target: region_export.Target,
    ) -> list[Specialisation]:
        state: list[ArrayKind] = [(array.shape, str(array.dtype)) for array in self.state]

        def export(arguments: Sequence[object]) -> list[Specialisation]:
            return [self._exported(region_export.export_for_shapes, static, arguments, target)]

        def leaves_of(example: Example, dims: Mapping[str, object]) -> list[ArrayKind]:
            arrays = [
                (_lengths(dims, each.name, kind.shape), str(kind.dtype))
                for each, kind in example.arrays
            ]
            return [*arrays, *state]

        calls = [
            [jax.ShapeDtypeStruct(*leaf) for leaf in leaves_of(example, {})] for example in examples
        ]
        found = region_export.code_for_calls(export, static, calls, ())
        leaves = leaves_of(examples[0], dims)
        if any(isinstance(length, str) for shape, _ in leaves for length in shape):
            export_open = region_export.export_for_dimensions
            found.append(self._exported(export_open, static, leaves, {}, target)[0])
        return found

    def _exported(self, export: Callable[..., object], *parts: object) -> Any:
        """Code, or the error that names the function."""
        try:
            return export(self, *parts)
        except ArtifactError:
            raise
        except region_export.NoBackwardError as error:
            code, cause = Code.NO_REVERSE_MODE, error
            reason = (
                "JAX cannot differentiate it backward, because it has no reverse mode for a loop "
                "that ends by a condition. Save with vjp_order=0."
            )
        except region_export.NotSymbolicError as error:
            code, cause = Code.NOT_EXPORTED, error
            reason = f"there is no code for the dimensions that dims opens: {error}"
        except ForeignCodeError as error:
            code, cause, reason = Code.NOT_EXPORTED, error, f"the code holds {error}"
        except Exception as error:
            code, cause = Code.NOT_EXPORTED, error
            reason = f"JAX cannot export it ({type(error).__name__}: {error!s:.300})"
        raise ArtifactError(f"{self.name}: {reason}", code=code) from cause


def array_kind(shape: Sequence[int | None], dtype: object) -> Kind:
    """The type of an array."""
    text = ", ".join("?" if length is None else str(length) for length in shape)
    return Kind("array", f"{dtype}[{text}]", str(dtype), tuple(shape))


def _donated_in(closed: ClosedJaxpr, example: Example) -> set[str]:
    """The leaves that are given to a jitted function inside, which donates them."""
    names = dict(zip(closed.jaxpr.invars, [each.name for each, _ in example.arrays], strict=False))
    return {
        names[variable]
        for equation in closed.jaxpr.eqns
        for variable, donated in zip(
            equation.invars, equation.params.get("donated_invars", ()), strict=False
        )
        if donated and not hasattr(variable, "val") and variable in names
    }


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


def _common(shapes: Sequence[Sequence[int]]) -> list[int | None]:
    """The lengths that some shapes of one rank have in common, None for the others."""
    return [lengths[0] if len({*lengths}) == 1 else None for lengths in zip(*shapes, strict=True)]


def _lengths(dims: Mapping[str, object], name: str, shape: Sequence[int]) -> tuple[int | str, ...]:
    """The lengths of an argument; where nothing is said that of the example."""
    asked = lengths_said(dims.get(name), len(shape), name)
    return tuple(n if length is None else length for length, n in zip(asked, shape, strict=True))
