"""Random graphs: productions by family, each of which takes values from a pool and makes one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytensor
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.traversal import ancestors

from tests.differential.grammar import (
    arrays,
    branches,
    cubes,
    elementwise,
    indexing,
    loops,
    matrices,
    prefixes,
    public,
    rare,
    sizes,
    sparse,
    state,
    wrapped,
)
from tests.differential.grammar.family import Production
from tests.differential.grammar.inputs import Input, give_inputs, give_shared, value_of
from tests.differential.grammar.pool import Pool

FAMILIES = (
    elementwise, arrays, sizes, indexing, loops, branches, state, sparse, wrapped, matrices,
    prefixes, rare, cubes, public,
)  # fmt: skip

PRODUCTIONS: dict[str, Production] = {
    each.name: each for module in FAMILIES for each in module.family.productions
}

CALLS = 4
"""The first two have the same shapes and sizes, each further one others."""

_IMPOSSIBLE = (
    TypeError, NotImplementedError, ValueError, IndexError, NullTypeGradError,
    DisconnectedInputError, AssertionError,
)  # fmt: skip
"""PyTensor has no such operation on these types."""


@dataclass(frozen=True)
class Step:
    """A production that made something in this graph."""

    number: int
    production: str


@dataclass(frozen=True)
class Graph:
    """A random graph, and the arguments of its calls."""

    seed: int
    float_type: str
    inputs: list[Any]
    outputs: list[Any]
    updates: list[tuple[Any, Any]]
    shared: list[Any]
    steps: list[Step]
    calls: list[list[Any]]
    initial: list[Any]

    def reset(self, change: Callable[[Any], Any] = deepcopy) -> None:
        """Give the shared variables their first values, which a function may change."""
        for variable, value in zip(self.shared, self.initial, strict=True):
            variable.set_value(change(value))


def random_graph(
    seed: int, *, without: Collection[str] = (), only: Collection[str] = (), keep: Any = None
) -> Graph:
    """A graph; the same for the same arguments.

    Parameters
    ----------
    without, only
        Prefixes of the names of productions that are left out, or taken alone.
    keep
        The numbers of the steps that are made, where not all are.
    """
    pool = Pool(seed)
    float_type = "float32" if pool.sometimes(6) else "float64"
    with (
        warnings.catch_warnings(),
        pytensor.config.change_flags(floatX=float_type, on_opt_error="ignore"),
    ):
        warnings.simplefilter("ignore")
        given, shared = give_inputs(pool), give_shared(pool)
        made = _grow(pool, chosen(without, only), keep)
    outputs, steps = _ends(pool, made)
    used = set(ancestors([*outputs, *pool.updates.values()])) | set(pool.updates)
    inputs = [each for each in given if each.variable in used]
    states = [each for each in shared if each.variable in used]
    calls, initial = _values(seed, inputs, states)
    return Graph(
        seed,
        float_type,
        [each.variable for each in inputs],
        outputs,
        list(pool.updates.items()),
        [each.variable for each in states],
        steps,
        calls,
        initial,
    )


def chosen(without: Collection[str], only: Collection[str]) -> list[Production]:
    """The productions that a search uses."""
    return [
        production
        for name, production in PRODUCTIONS.items()
        if not name.startswith(tuple(without)) and name.startswith(tuple(only) or "")
    ]


def _grow(pool: Pool, productions: list[Production], keep: Any) -> list[tuple[int, str, Any]]:
    """Let productions make values.  Returns for each its step, its name and its value."""
    made = []
    pool.begin(-1)
    for step in range(1 + pool.choose(6)):
        pool.begin(step)
        production = _choose(pool, productions)
        if keep is not None and step not in keep:
            continue
        try:
            value = production.make(pool)
        except _IMPOSSIBLE:
            continue
        if production.kind == "update":
            variable, value = value
            try:
                value = variable.type.filter_variable(value)
            except TypeError:
                continue
            pool.updates[variable] = value
        else:
            pool.add(_kind_of(production, value), value, step)
        made.append((step, production.name, value))
    return made


def _choose(pool: Pool, productions: list[Production]) -> Production:
    """Any production, or any family and one of its productions: the families differ in size."""
    if pool.choose(2):
        family = pool.one_of(sorted({each.name.split(".")[0] for each in productions}))
        productions = [each for each in productions if each.name.split(".")[0] == family]
    return pool.one_of(productions)


def _kind_of(production: Production, value: Any) -> str:
    is_dense = production.kind == "sparse" and not hasattr(value.type, "format")
    return (
        ("scalar", "vector", "matrix")[value.type.ndim]
        if production.kind == "any" or is_dense
        else production.kind
    )


def _ends(pool: Pool, made: list[tuple[int, str, Any]]) -> tuple[list[Any], list[Step]]:
    """The values that nothing else is made from, which are the outputs, and the steps to them."""
    updates = list(pool.updates.values())
    outputs: list[Any] = []
    for _, _, value in reversed(made):
        if not any(value is other for other in ancestors([*outputs, *updates])):
            outputs.insert(0, value)
    reached = set(ancestors([*outputs, *updates]))
    return outputs, [Step(step, name) for step, name, value in made if value in reached]


def _values(
    seed: int, inputs: list[Input], states: list[Input]
) -> tuple[list[list[Any]], list[Any]]:
    def arguments(call: int) -> list[Any]:
        shape = max(call - 1, 0)
        return [
            value_of(each, seed, call if shape or not each.fixed else 0, shape) for each in inputs
        ]

    return [arguments(call) for call in range(CALLS)], [
        value_of(each, seed, 0, 0) for each in states
    ]
