"""One region as StableHLO, for open dimensions or for given shapes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax import errors, export
from jax.extend.core import Jaxpr

from pytensor_jaxlink.artifact.compiled.operations import check_operations
from pytensor_jaxlink.artifact.compiled.saved_regions import (
    ArrayKind,
    Form,
    Specialisation,
    array_kind_of,
    arrays_of,
    form_of,
)
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError, NotDifferentiableError
from pytensor_jaxlink.lowering.checks import differentiable
from pytensor_jaxlink.lowering.platforms import for_platforms
from pytensor_jaxlink.lowering.program import Program
from pytensor_jaxlink.remedies import Remedy
from pytensor_jaxlink.size_functions import UndecidedComparisonError

_MOST_BOUNDS = 24
_LONG = 1 << 20
_LINEAR = re.compile(r"(?:([0-9]+)\*)?([A-Za-z_][A-Za-z0-9_]*)(?: ([+-]) ([0-9]+))?")

Bounds = dict[str, int]
"""The least length of open dimensions."""


@dataclass(frozen=True)
class Target:
    """The platforms that code is made for."""

    platforms: tuple[str, ...] | None  # as in `jax.export.export`; None for the one that runs here
    vjp_order: int  # how often the code can be differentiated backward
    x64: bool = True  # whether JAX has 64-bit types while it traces


Found = tuple[Specialisation, list[tuple[int | str, ...]]]
"""Code, and the shapes of its results."""


class NotSymbolicError(Exception):
    """The program cannot be traced for open dimensions."""


class NoBackwardError(Exception):
    """The program has a loop that JAX cannot differentiate backward."""


def code_for_calls(
    export: Callable[[Sequence[object]], list[Specialisation]],
    static: tuple[object, ...],
    calls: Iterable[Sequence[object]],
    opened: Sequence[Specialisation],
) -> list[Specialisation]:
    """The code for the shapes of calls, then that for open dimensions: the first that fits is used.

    There is code for the shapes of calls also where there is code for open dimensions, of which
    XLA makes something else: results are then the bits of the function that is saved.
    """
    exact = [each for each in opened if not each.is_open]
    for arguments in calls:
        if not any(each.is_for(static, arguments) for each in exact):
            exact += export(arguments)
    return [*exact, *(each for each in opened if each.is_open)]


def export_for_shapes(
    program: Program, static: tuple[object, ...], arguments: Sequence[object], target: Target
) -> Specialisation:
    """The code for arguments of given shapes (sparse matrices included)."""
    return _export(program, static, arguments, {}, target)[0]


def export_for_dimensions(
    program: Program,
    static: tuple[object, ...],
    leaves: Sequence[ArrayKind],
    known: Bounds,
    target: Target,
) -> Found:
    """The code for families of shapes, and the shapes of its results.

    ``known`` is what holds for open dimensions already, perhaps of others too.  Where the code
    depends on whether a dimension is large enough (an index, a slice), it is made for those that
    are.

    Raises
    ------
    NotSymbolicError
        If there is no such code.
    """

    def attempt(least: Bounds) -> Found:
        least = {name: bound for name, bound in least.items() if bound > 1}
        scope = export.SymbolicScope([f"{name} >= {bound}" for name, bound in least.items()])
        arguments = [jax.ShapeDtypeStruct(_shape(shape, scope), dtype) for shape, dtype in leaves]
        return _export(program, static, arguments, least, target)

    names = {part for shape, _ in leaves for part in shape if str(part).isidentifier()}
    least = {name: bound for name, bound in known.items() if name in names}
    try:
        try:
            return _decided(attempt, least)[0]
        except errors.InconclusiveDimensionOperation:
            return _searched(attempt, least, sorted(map(str, names)))
    except (ArtifactError, NoBackwardError, NotDifferentiableError, NotSymbolicError):
        raise
    except Exception as error:
        # JAX, and the rules, raise all kinds of exceptions at what they cannot do for an
        # open dimension.  What is wrong for every shape shows when it is exported for one.
        message = str(error).splitlines() or [type(error).__name__]
        raise NotSymbolicError(message[0]) from error


def _decided(attempt: Callable[[Bounds], Found], least: Bounds) -> tuple[Found, Bounds]:
    """The code, and the bounds that decide the comparisons of our own rules."""
    for _ in range(_MOST_BOUNDS):
        try:
            return attempt(least), least
        except UndecidedComparisonError as error:
            bound = _bound(error.difference)
            if bound is None or bound[1] <= least.get(bound[0], 1):
                raise
            least = least | dict([bound])
    raise NotSymbolicError("too many conditions on its dimensions")


def _bound(difference: Any) -> tuple[str, int] | None:
    """The dimension that decides the sign of a difference of sizes, and the length from which on.

    None if there is not one such dimension.
    """
    for margin in (difference, -difference - 1):
        linear = _LINEAR.fullmatch(str(margin))
        if linear is not None:
            factor, name, sign, offset = linear.groups()
            return name, -(int(f"{sign or '+'}{offset or 0}") // int(factor or 1))
    return None


def _searched(attempt: Callable[[Bounds], Found], least: Bounds, names: Sequence[str]) -> Found:
    """The code, with the least bounds for which there is code.

    JAX compares lengths too (in `jnp.argmax`, and when it lowers a QR decomposition), and its
    exceptions hold neither of them.  What is decided for long dimensions is tried for shorter ones.
    """
    _, bounds = _decided(attempt, least | dict.fromkeys(names, _LONG))
    for name in names:
        bounds = _shortened(attempt, bounds, name, least.get(name, 1))
    return _decided(attempt, bounds)[0]


def _shortened(
    attempt: Callable[[Bounds], Found], bounds: Bounds, name: str, shortest: int
) -> Bounds:
    """The bounds with the least one of a dimension for which there is code."""

    def works(length: int) -> bool:
        try:
            _decided(attempt, {**bounds, name: length})
        except (errors.InconclusiveDimensionOperation, NotSymbolicError):
            return False
        return True

    long = shortest
    while long < _LONG and not works(long):
        long *= 2
    short = max(long // 2 + 1, shortest)
    return {**bounds, name: short + bisect_left(range(short, long), True, key=works)}


def _shape(shape: Sequence[int | str], scope: export.SymbolicScope) -> tuple[object, ...]:
    if not shape:
        return ()
    return tuple(export.symbolic_shape(", ".join(map(str, shape)) + ",", scope=scope))


def _export(
    program: Program,
    static: tuple[object, ...],
    arguments: Sequence[object],
    least: Bounds,
    target: Target,
) -> Found:
    leaves, tree = jax.tree_util.tree_flatten(list(arguments))
    forms: list[Form] = []

    def flat(*values: object) -> tuple[list[jax.Array], object]:
        results, conditions = program(static, *jax.tree_util.tree_unflatten(tree, values))
        forms[:] = map(form_of, results)
        return jax.tree_util.tree_leaves(list(results)), conditions

    with ExitStack() as stack:
        stack.enter_context(jax.enable_x64(target.x64))
        stack.enter_context(_without_paths())
        if target.platforms:
            stack.enter_context(for_platforms(target.platforms))
        if target.vjp_order:
            stack.enter_context(differentiable())
        exported = export.export(jax.jit(flat), platforms=target.platforms)(*leaves)
        check_operations(exported)  # before somebody else finds that it is refused
        try:
            blob = exported.serialize(vjp_order=target.vjp_order)
        except ImportError as error:
            raise ArtifactError(
                "saving compiled code needs the package flatbuffers, which is not installed: "
                f"{Remedy.INSTALL.text()}, or {Remedy.SAVE_GRAPH_ONLY.text()}.",
                code=Code.NO_FLATBUFFERS,
            ) from error
        except ValueError as error:
            if target.vjp_order and _ends_by_condition(jax.make_jaxpr(flat)(*leaves).jaxpr):
                raise NoBackwardError from error
            raise
    specialisation = Specialisation(
        static,
        tuple(map(form_of, arguments)),
        tuple(forms),
        tuple(map(array_kind_of, leaves)),
        least,
        blob,
    )
    found = map(array_kind_of, exported.out_avals[: arrays_of(forms)])
    return specialisation, [shape for shape, _ in found]


def _ends_by_condition(jaxpr: Jaxpr) -> bool:
    """Return True if there is a loop in the code that ends by a condition: it has no derivative."""
    for equation in jaxpr.eqns:
        parts = jax.tree_util.tree_leaves(list(equation.params.values()))
        inner = [getattr(part, "jaxpr", part) for part in parts]
        if equation.primitive is jax.lax.while_p or any(
            isinstance(part, Jaxpr) and _ends_by_condition(part) for part in inner
        ):
            return True
    return False


@contextmanager
def _without_paths() -> Iterator[None]:
    """Have JAX note no files of this machine in the code: it is for others.

    Its configuration is that of the process; what another thread traces meanwhile lacks them too,
    which nothing but XLA's own messages show.
    """
    wanted = {
        "jax_include_full_tracebacks_in_locations": False,
        "jax_hlo_source_file_canonicalization_regex": ".*",
    }
    before = {name: getattr(jax.config, name) for name in wanted}
    try:
        for name, value in wanted.items():
            jax.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
