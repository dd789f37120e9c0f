"""One region as StableHLO, for open dimensions or for given shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax import export

from pytensor_jaxlink.artifact.compiled.operations import check_operations
from pytensor_jaxlink.artifact.compiled.regions import Leaf, Specialisation, form_of
from pytensor_jaxlink.errors import ArtifactError
from pytensor_jaxlink.lowering.program import Program
from pytensor_jaxlink.remedies import Remedy

_MOST_CONSTRAINTS = 24
_LINEAR = re.compile(r"(?:([0-9]+)\*)?([A-Za-z_][A-Za-z0-9_]*)(?: ([+-]) ([0-9]+))?")
_NO_BACKWARD = "Reverse-mode differentiation does not work for lax.while_loop"
_COMPARED = re.compile(r"comparison '([^']*)' (<=|<|>=|>) '([^']*)' is inconclusive")


@dataclass(frozen=True)
class Target:
    """The platforms that code is made for.

    Attributes
    ----------
    platforms
        As in `jax.export.export`; None for the one that runs here.
    vjp_order
        How often the code can be differentiated backward.
    x64
        Whether JAX has 64-bit types while it traces.
    """

    platforms: tuple[str, ...] | None
    vjp_order: int
    x64: bool = True


class NotSymbolicError(Exception):
    """The program cannot be traced for open dimensions."""


class NoBackwardError(Exception):
    """The program has a loop that JAX cannot differentiate backward."""


def export_for_shapes(
    program: Program, static: tuple[Any, ...], arguments: Sequence[Any], target: Target
) -> Specialisation:
    """The code for arguments of given shapes (sparse matrices included)."""
    return _export(_traced(program, static), static, arguments, (), target)[0]


def _traced(program: Program, static: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *values: program(static, *values, barriers=True)


def export_for_dimensions(
    program: Program,
    static: tuple[Any, ...],
    leaves: Sequence[Leaf],
    constraints: Sequence[str],
    target: Target,
) -> tuple[Specialisation, list[tuple[Any, ...]]]:
    """The code for families of shapes, and the shapes of its results.

    Where the code depends on whether a dimension is large enough (an index, a slice), it is made
    for those that are, and a constraint says so.

    Raises
    ------
    NotSymbolicError
        If there is no such code.
    """
    constraints = list(constraints)
    for _ in range(_MOST_CONSTRAINTS):
        scope = export.SymbolicScope(constraints)
        arguments = [jax.ShapeDtypeStruct(_shape(shape, scope), dtype) for shape, dtype in leaves]
        try:
            return _export(_traced(program, static), static, arguments, tuple(constraints), target)
        except (ArtifactError, NoBackwardError):
            raise
        except Exception as error:
            added = _constraint(error, constraints)
            if added is None:
                # JAX, and the rules, raise all kinds of exceptions at what they cannot do for an
                # open dimension.  What is wrong for every shape shows when it is exported for one.
                message = str(error).splitlines() or [type(error).__name__]
                raise NotSymbolicError(message[0]) from error
            name = added.split(" ")[0]  # which a weaker condition may be there for
            constraints = [each for each in constraints if each.split(" ")[0] != name]
            constraints.append(added)
    raise NotSymbolicError("too many conditions on its dimensions")


def _shape(shape: Sequence[int | str], scope: Any) -> tuple[Any, ...]:
    if not shape:
        return ()
    return tuple(export.symbolic_shape(", ".join(map(str, shape)) + ",", scope=scope))


def _constraint(error: Exception, there: Sequence[str]) -> str | None:
    """The constraint on a dimension that decides a comparison which stopped the trace."""
    found = _COMPARED.search(str(error))
    if found is None:
        return None
    one, relation, other = found.groups()
    linear = _LINEAR.fullmatch(one)
    if linear is None or not other.lstrip("-").isdigit():
        return None  # more than what is looked at when the code is called
    factor, name, sign, offset = linear.groups()
    least = int(other) + (relation in ("<=", ">")) - int(f"{sign or '+'}{offset or 0}")
    added = f"{name} >= {-(-least // int(factor or 1))}"
    return None if added in there else added


def _export(
    function: Callable[..., Any],
    static: tuple[Any, ...],
    arguments: Sequence[Any],
    constraints: tuple[str, ...],
    target: Target,
) -> tuple[Specialisation, list[tuple[Any, ...]]]:
    leaves, tree = jax.tree_util.tree_flatten(list(arguments))
    forms: list[Any] = []

    def flat(*values: Any) -> Any:
        results, conditions = function(*jax.tree_util.tree_unflatten(tree, values))
        forms[:] = map(form_of, results)
        return jax.tree_util.tree_leaves(list(results)), conditions

    with jax.enable_x64(target.x64), _without_paths():
        exported = export.export(jax.jit(flat), platforms=target.platforms)(*leaves)
        check_operations(exported)  # before somebody else finds that it is refused
        try:
            blob = exported.serialize(vjp_order=target.vjp_order)
        except ImportError as error:
            raise ArtifactError(
                "saving compiled code needs the package flatbuffers, which is not installed: "
                f"{Remedy.INSTALL.text()}, or {Remedy.SAVE_GRAPH_ONLY.text()}."
            ) from error
        except ValueError as error:
            if _NO_BACKWARD in str(error):
                raise NoBackwardError from error
            raise
    described = tuple((tuple(map(_plain, leaf.shape)), str(leaf.dtype)) for leaf in leaves)
    specialisation = Specialisation(
        static,
        tuple(map(form_of, arguments)),
        tuple(forms),
        described,
        constraints,
        blob,
    )
    count = sum(1 if form is None else 3 for form in forms)
    shapes = [tuple(map(_plain, found.shape)) for found in exported.out_avals[:count]]
    return specialisation, shapes


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


def _plain(length: Any) -> int | str:
    return length if isinstance(length, int) else str(length)
