"""Regions that were compiled to StableHLO when they were saved, and the shapes they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.core import ShapedArray
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike

from pytensor_jaxlink.artifact.compiled.operations import (
    ForeignCodeError,
    check_all,
    check_for_shapes,
)
from pytensor_jaxlink.artifact.compiled.saved_derivatives import (
    SavedCall,
    in_narrow_types,
    is_inexact,
    moves_of,
    no_move,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError, NotSavedError
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.runtime import is_out_of_memory
from pytensor_jaxlink.runtime.typed_jax import configuration
from pytensor_jaxlink.sparse_values import SparseValue

_SHOWN = 12  # arguments in an error

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Dimensions = Sequence[int | str]
"""A family of shapes: numbers, and names or expressions of open dimensions."""

ArrayKind = tuple[tuple[int | str, ...], str]
"""A shape, in which strings are open dimensions, and a dtype."""

Form = tuple[int, int, str] | None
"""None for an array, else the shape and the format of a sparse matrix."""

Found = tuple[tuple[jax.Array | SparseValue, ...], tuple[jax.Array, ...]]
"""The results of a region, and at most one condition."""


@dataclass
class Specialisation:
    """The code of a region for some static values, and shapes or families of shapes."""

    static: tuple[object, ...]  # the values
    # the form of each: None for an array, else the shape and format of a sparse matrix
    arguments: tuple[Form, ...]
    results: tuple[Form, ...]
    leaves: tuple[ArrayKind, ...]  # the arrays that it takes
    least: Mapping[str, int]  # how long open dimensions must be
    blob: bytearray  # the code, serialised by `jax.export`
    where: str = ""  # the file and the region, for errors
    _calls_open: bool = field(default=False, repr=False)
    _traced: list[jax.ShapeDtypeStruct] | None = field(default=None, repr=False)
    _calls: dict[bool, SavedCall] = field(default_factory=dict[bool, SavedCall], repr=False)

    @property
    def is_open(self) -> bool:
        """Return True if it is for more than one combination of shapes."""
        return any(isinstance(length, str) for shape, _ in self.leaves for length in shape)

    @property
    def signature(self) -> object:
        """Equal for code that is for the same values."""
        return self.static, self.arguments, self.leaves

    @property
    def constraints(self) -> list[str]:
        """The constraints on the open dimensions, as texts such as ``"n >= 3"``."""
        return [f"{name} >= {bound}" for name, bound in self.least.items()]

    def sizes(self, names: Sequence[str]) -> str:
        """The sizes that it is for, as text; the names of the static values come first."""
        values = zip(names, self.static, strict=False)
        static = ", ".join(f"{name} = {value}" for name, value in values)
        text = f"{static}: " if static else ""
        text += ", ".join(shown(shape) for shape, _ in self.leaves) or "no arrays"
        return f"{text} where {', '.join(self.constraints)}" if self.least else text

    def is_for(self, static: Sequence[object], arguments: Sequence[object]) -> bool:
        """Return True if it is for the sizes of a call."""
        if (*static,) != self.static or tuple(map(form_of, arguments)) != self.arguments:
            return False
        leaves = jax.tree_util.tree_leaves(list(arguments))
        return self.mismatch(leaves, [""] * len(leaves)) is None

    def mismatch(self, arrays: Sequence[Any], names: Sequence[str]) -> str | None:
        """The first shape that it is not for, or None if there may be none.

        What is more than a name or a number (``2*n + 1``) is left to JAX, which solves for it.
        """
        found: dict[str, tuple[int, str]] = {}
        for (family, _), array, name in zip(self.leaves, arrays, names, strict=True):
            shape = np.shape(array)
            if len(shape) != len(family):
                return f"{name} has {len(shape)} dimensions and not {len(family)}"
            for axis, (expected, length) in enumerate(zip(family, shape, strict=True)):
                where = f"axis {axis} of {name}"
                if isinstance(expected, int) and expected != length:
                    return f"{where} has length {length} and not {expected}"
                if not isinstance(expected, str) or not _NAME.fullmatch(expected):
                    continue
                other, place = found.setdefault(expected, (length, where))
                if other != length:
                    return (
                        f"{where} has length {length}, {place} has {other}, and they must be equal"
                    )
        for name, (length, where) in found.items():
            bound = self.least.get(name, 1)  # JAX takes it that open dimensions are not empty
            if isinstance(length, int) and length < bound:
                return f"{where} has length {length}, and must have at least {bound}"
        return None

    def __call__(self, arguments: Sequence[object]) -> Found:
        """The results and the conditions of the region."""
        exported = self._exported
        given = zip(jax.tree_util.tree_leaves(list(arguments)), self.leaves, strict=True)
        leaves = [
            jax.numpy.asarray(leaf, dtype=jax.dtypes.canonicalize_dtype(dtype))
            for leaf, (_, dtype) in given
        ]
        self._traced = [
            jax.ShapeDtypeStruct(leaf.shape, dtype)
            for leaf, (_, dtype) in zip(leaves, self.leaves, strict=True)
        ]
        if self._calls_open:
            self._check_for_shapes(self._traced)
        wide = configuration.jax_enable_x64
        if wide not in self._calls:
            self._calls[wide] = call_of(exported, self.where)
        found = self._calls[wide](*leaves)
        found, conditions = jax.tree.unflatten(exported.out_tree, found)
        rest = iter(found)
        return tuple(_result(form, rest) for form in self.results), conditions

    def check(self) -> None:
        """Look whether a call has failed because of the code: compile and run it alone, once.

        Raises
        ------
        ArtifactError
            If JAX cannot do that, for the shapes that it has traced last.
        """
        if self._traced is None:
            return
        try:
            with jax.enable_x64(True):
                call = jax.jit(self._exported.call).lower(*self._traced).compile()
                zeros = [jax.numpy.zeros(kind.shape, kind.dtype) for kind in self._traced]
                jax.block_until_ready(call(*zeros))
        except Exception as error:
            if is_out_of_memory(error):
                return  # of this machine, whatever the file holds
            shapes = ", ".join(shown(kind.shape) for kind in self._traced) or "of nothing"
            if self.is_open:  # the graph may ask for equal lengths that no analysis has seen
                raise NotSavedError(
                    f"{self.where}: XLA cannot make the code fit the shapes {shapes}: lengths that "
                    f"must agree do not, or it is damaged. {Remedy.SAVE_SIZES.text()}, or "
                    f"{Remedy.LOAD_GRAPH.text()}."
                ) from error
            raise self._unusable(
                f"XLA cannot run the code for shapes {shapes}, because it is damaged or not what "
                f"JAX has exported ({type(error).__name__}: {error!s:.200})"
            ) from error
        self._traced = None

    @cached_property
    def _exported(self) -> export.Exported:
        try:
            exported = export.deserialize(self.blob)
            taken = list(map(array_kind_of, exported.in_avals))
            given = exported.out_tree
            self._calls_open = check_all(exported)
        except ForeignCodeError as error:
            raise self._unusable(f"the code holds {error!s:.300}") from error
        except ImportError as error:
            raise ArtifactError(
                "running saved code needs the package flatbuffers, which is not installed: "
                f"{Remedy.INSTALL.text()}, or {Remedy.LOAD_GRAPH.text()}.",
                code=Code.NO_FLATBUFFERS,
            ) from error
        except Exception as error:  # whatever JAX, or what it reads with, finds wrong
            raise self._unusable(
                f"JAX {jax.__version__} cannot read the code, because it is damaged or too old "
                f"({type(error).__name__}: {error!s:.200})"
            ) from error
        if taken != list(self.leaves):
            raise self._other("takes", _kinds(taken), _kinds(self.leaves))
        count = arrays_of(self.results)
        expected = [jax.tree_util.tree_structure(([0] * count, (0,) * k)) for k in (0, 1)]
        if given not in expected:
            raise self._other("gives", given, f"{count} arrays and at most one condition")
        if exported.ordered_effects or exported.unordered_effects:
            raise self._other("has", "effects", "none")
        return exported

    def _check_for_shapes(self, leaves: Sequence[object]) -> None:
        try:
            with jax.enable_x64(True):
                check_for_shapes(self._exported, leaves)
        except Exception as error:  # whatever XLA finds wrong with the lengths
            raise self._unusable(f"the code holds {error!s:.300}") from error

    def _other(self, verb: str, found: object, expected: object) -> ArtifactError:
        problem = f"the code {verb} {found}, and the file says it {verb} {expected}"
        return self._unusable(
            problem, f"{Remedy.SAVE_AGAIN.text()}, or {Remedy.LOAD_GRAPH.text()}."
        )

    def _unusable(
        self, problem: str, remedy: str = f"{Remedy.LOAD_GRAPH.text()} compiles it anew."
    ) -> ArtifactError:
        text = f"{self.where}: {problem}. {remedy}"
        return ArtifactError(text, code=Code.UNREADABLE_CODE)


def call_of(exported: export.Exported, where: str) -> SavedCall:
    """The function of code that JAX has exported, which says what JAX cannot do with it.

    The code has the types of the process that saved it.  Where JAX is configured without 64-bit
    types, it takes and gives the narrower ones, as functions of JAX do.

    Parameters
    ----------
    exported
        The code.
    where
        The file and the region, for errors.
    """
    narrow = not configuration.jax_enable_x64

    def evaluate(*leaves: jax.Array) -> list[jax.Array]:
        with jax.enable_x64(True):
            taken = [
                jnp.asarray(leaf, kind.dtype)
                for leaf, kind in zip(leaves, exported.in_avals, strict=True)
            ]
            given = jax.tree.leaves(exported.call(*taken))
            return [in_narrow_types(each) for each in given] if narrow else given

    mapped = custom_vmap(evaluate)

    @mapped.def_vmap
    def refuse(*_: object) -> NoReturn:  # calls of exported code have no rule for `jax.vmap`
        text = (
            "JAX cannot map code that was exported over one more axis. "
            f"{Remedy.OPEN_AXIS.text()}, or {Remedy.LOAD_GRAPH.text()}."
        )
        raise NotImplementedError(Code.NOT_MAPPED.mark(text))

    def rule(
        primals: Sequence[jax.Array], tangents: Sequence[jax.Array]
    ) -> tuple[list[jax.Array], list[object]]:
        outputs = call(*primals)
        moving = [
            k
            for k, each in enumerate(tangents)
            if not isinstance(each, SymbolicZero) and jnp.issubdtype(primals[k].dtype, jnp.inexact)
        ]
        moves = iter(moves_of(call_of, exported, where, primals, outputs, moving, tangents))
        return outputs, [next(moves) if is_inexact(each) else no_move(each) for each in outputs]

    call = jax.custom_jvp(mapped)
    call.defjvp(rule, symbolic_zeros=True)
    return call


def array_kind_of(array: ShapedArray | jax.ShapeDtypeStruct) -> ArrayKind:
    """The kind of an array that JAX traces, or of what stands for one."""
    lengths = (n if isinstance(n, int) else str(n) for n in array.shape)
    return tuple(lengths), str(array.dtype)


def _kinds(leaves: Sequence[ArrayKind]) -> str:
    return ", ".join(f"{dtype}{shown(shape)}" for shape, dtype in leaves) or "nothing"


class SavedRegion:
    """A region as a function: ``(static, *arguments) -> (results, conditions)``.

    It has its ``index``, and the ``code`` that there is.  ``names`` are those of its static values
    and arguments; ``reason`` says why there is no code.
    """

    def __init__(
        self,
        index: int,
        names: Sequence[str],
        code: Sequence[Specialisation],
        reason: str,
        *,
        by_example: bool,
    ) -> None:
        self.index, self.code = index, list(code)
        self._names, self._reason, self._by_example = names, reason, by_example

    def check(self) -> None:
        """Raise what is wrong with the code, if that is why a call has failed."""
        for code in self.code:
            code.check()

    def __call__(self, static: Sequence[object], *arguments: ArrayLike | SparseValue) -> Found:
        """Run the code that fits.  It has the barriers that it was exported with.

        Raises
        ------
        NotSavedError
            If none does; the message says for what there is code.
        """
        code = self.fitting(static, arguments)
        return self._without_code(static, arguments) if code is None else code(arguments)

    def fitting(
        self, static: Sequence[object], arguments: Sequence[object]
    ) -> Specialisation | None:
        """The first code that is for these values; None where there is none."""
        return next((code for code in self.code if code.is_for(static, arguments)), None)

    def _without_code(
        self, static: Sequence[object], arguments: Sequence[ArrayLike | SparseValue]
    ) -> Found:
        given = [*static, *(np.shape(argument) for argument in arguments)]
        pairs = list(zip(self._names, given, strict=True))
        found = ", ".join(f"{name} = {value}" for name, value in pairs[:_SHOWN])
        found += ", ..." if len(pairs) > _SHOWN else ""
        wrong = self._mismatch(static, arguments)
        start = f"{wrong}: " if wrong else ""
        there = "; ".join(code.sizes(self._names) for code in self.code)
        there = there or f"nothing ({self._reason})"
        remedy = f"{Remedy.SAVE_SIZES.text()}, or {Remedy.LOAD_GRAPH.text()}"
        if self._by_example:
            remedy = Remedy.MORE_EXAMPLES.text()
        raise NotSavedError(
            f"{start}no code was saved for {found}. There is code for {there}. {remedy}."
        )

    def _mismatch(self, static: Sequence[object], arguments: Sequence[object]) -> str | None:
        """The shapes that the open code lacks, for a call whose shapes do not fit."""
        names = self._names[len(static) :]
        for each in self.code:
            if each.is_open and not any(each.arguments):
                return each.mismatch(arguments, names)
        return None


def arrays_of(forms: Sequence[Form]) -> int:
    """How many arrays values of these forms are."""
    return sum(1 if form is None else 3 for form in forms)


def form_of(value: object) -> Form:
    """None for an array, else what is the same for all values of a sparse matrix."""
    return (*value.shape, value.format) if isinstance(value, SparseValue) else None


def _result(form: Form, rest: Iterator[jax.Array]) -> jax.Array | SparseValue:
    if form is None:
        return next(rest)
    rows, columns, kind = form
    return SparseValue(next(rest), next(rest), next(rest), (rows, columns), kind)


def shown(family: Dimensions) -> str:
    """A family of shapes as text."""
    return f"({', '.join(map(str, family))}{',' if len(family) == 1 else ''})"
