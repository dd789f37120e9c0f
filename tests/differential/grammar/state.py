"""Updates of shared variables."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from pytensor_jaxlink.compat import ifelse
from tests.differential.grammar.branches import condition
from tests.differential.grammar.family import Family
from tests.differential.grammar.loops import scan
from tests.differential.grammar.pool import Pool, converted

family = Family("state")
# Each production gives a shared variable and its new value.


def _kept(p: Pool, kind: str) -> Any:
    """A shared variable without an update."""
    free = [state for state in p.shared[kind] if state not in p.updates]
    if not free:
        raise NotImplementedError("every shared variable of this kind has its update")
    return p.one_of(free)


@family.gives("update")
def add_total(p: Pool) -> Any:
    state = _kept(p, "vector")
    return state, state + p.real().sum()


@family.gives("update")
def replace(p: Pool) -> Any:
    return _kept(p, "vector"), p.pick("vector")


@family.gives("update")
def grow(p: Pool) -> Any:
    state = _kept(p, "vector")
    return state, pt.concatenate([state, p.pick("vector")[:3]])


@family.gives("update")
def shrink(p: Pool) -> Any:
    state = _kept(p, "vector")
    return state, p.one_of([state[1:], state[state > 0], state[: p.pick("size")]])


@family.gives("update")
def set_entry(p: Pool) -> Any:
    state = _kept(p, "vector")
    return state, pt.set_subtensor(state[p.pick("size")], p.pick("scalar"))


@family.gives("update")
def increment_places(p: Pool) -> Any:
    state = _kept(p, "vector")
    return state, pt.inc_subtensor(state[p.pick("index")], 1)


@family.gives("update")
def set_row(p: Pool) -> Any:
    state = _kept(p, "matrix")
    return state, pt.set_subtensor(state[p.pick("size")], p.pick("scalar"))


@family.gives("update")
def scale_matrix(p: Pool) -> Any:
    state = _kept(p, "matrix")
    return state, state * 0.5 + p.pick("matrix").sum()


@family.gives("update")
def replace_matrix(p: Pool) -> Any:
    return _kept(p, "matrix"), p.pick("matrix")


@family.gives("update")
def count(p: Pool) -> Any:
    """A counter of a narrow type, which wraps."""
    state = _kept(p, "size")
    return state, pt.cast(state + p.one_of([1, 100, p.pick("size")]), state.type.dtype)


@family.gives("update")
def running_scalar(p: Pool) -> Any:
    state = _kept(p, "scalar")
    return state, state * 0.9 + p.pick("scalar")


@family.gives("update")
def if_so(p: Pool) -> Any:
    state = _kept(p, "vector")
    other = converted(p.pick("vector"), state.type.dtype)
    return state, ifelse(condition(p), state + 1, other)


@family.gives("update")
def count_if_so(p: Pool) -> Any:
    state = _kept(p, "size")
    return state, ifelse(condition(p), pt.cast(state + 1, state.type.dtype), state)


@family.gives("update")
def loop_over_state(p: Pool) -> Any:
    state = _kept(p, "scalar")
    rate = pt.cast(p.pick("scalar"), "float64")
    return state, scan(lambda s: pt.tanh(s) + rate, outputs_info=[state], n_steps=p.length(4) + 1)[
        -1
    ]


@family.gives("update")
def swap(p: Pool) -> Any:
    """Two states take each other's values."""
    first, second = p.shared["vector"][:2]
    if first in p.updates or second in p.updates:
        raise NotImplementedError("they have their updates")
    p.updates[second] = converted(first, second.type.dtype)
    return first, converted(second, first.type.dtype)


@family.gives("update")
def two_if_so(p: Pool) -> Any:
    """One branch, which changes two states: one of them in length."""
    state, counter = _kept(p, "vector"), _kept(p, "size")
    longer = pt.concatenate([state, state[:1]])
    new, counted = ifelse(
        condition(p), [longer, pt.cast(counter + 1, counter.type.dtype)], [state[:-1], counter]
    )
    p.updates[counter] = counted
    return state, new


@family.gives("update")
def add_rows(p: Pool) -> Any:
    state = _kept(p, "matrix")
    return state, p.one_of([pt.concatenate([state, state[: p.pick("size")]]), state[1:], state.T])


@family.gives("update")
def gradient_step(p: Pool) -> Any:
    """Of a cost over a part of the state."""
    state = next((each for each in p.shared["vector"] if each not in p.updates), None)
    if state is None or not state.type.dtype.startswith("float"):
        raise NotImplementedError("every shared vector of real numbers has its update")
    part = p.one_of([state[: p.pick("size")], state[state > 0], state[p.pick("index")], state[1:]])
    return state, state - p.one_of([0.1, 0.5]) * pt.grad((pt.tanh(part) ** 2).sum(), state)


@family.gives("update")
def nested_loop_over_state(p: Pool) -> Any:
    state = _kept(p, "scalar")

    def outer(s: Any) -> Any:
        return scan(lambda t: pt.tanh(t) * 2, outputs_info=[s], n_steps=2)[-1] + 0.1

    return state, scan(outer, outputs_info=[state], n_steps=pt.abs(p.length(3)) + 1)[-1]
