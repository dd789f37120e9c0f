"""Loops: over sequences, with states, nested, with ends of their own, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytensor
import pytensor.tensor as pt
from pytensor.scan.utils import until

from tests.differential.grammar.arrays import host_sort
from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool, as_float
from tests.differential.grammar.sizes import NARROW

family = Family("loops")


def scan(step: Callable[..., Any], **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def _double(value: Any) -> Any:
    return pt.cast(as_float(value), "float64")


def _steps(p: Pool) -> Any:
    """A number of steps of any integer type, rarely one that may be negative."""
    return p.pick("size") if p.sometimes(8) else p.length(6) + p.one_of([0, 1])


CURVES: tuple[Callable[[Any], Any], ...] = (
    pt.sin, pt.tanh, lambda value: pt.exp(-(value**2)),
    lambda value: pt.logsumexp(value[:, None] - value, axis=0),
    lambda value: pt.exp(-value[0]) * value,
)  # fmt: skip


@family.gives("vector")
def over_entries(p: Pool) -> Any:
    start = pt.constant(0.0, dtype="float64")
    return scan(
        lambda element, state: state * 0.5 + pt.cast(element, "float64"),
        sequences=[as_float(p.pick("vector"))],
        outputs_info=[start],
    )


@family.gives("vector")
def mapped(p: Pool) -> Any:
    first, second = p.pair()
    found = scan(lambda a, b: pt.switch(pt.gt(a, b), a * 2, b), sequences=[first, second])
    return p.with_tag_of(found, first)


@family.gives("vector")
def several_outputs(p: Pool) -> Any:
    states, squares = scan(
        lambda element, state: [pt.tanh(state + element), element**2],
        sequences=[_double(p.pick("vector"))],
        outputs_info=[_double(p.pick("scalar")), None],
    )
    return pt.concatenate([states, squares[:2]])


@family.gives("vector")
def until_large(p: Pool) -> Any:
    def step(state: Any) -> Any:
        return state * 2 + 1, until(state > 20)

    return scan(step, outputs_info=[_double(p.pick("scalar"))], n_steps=5)


@family.gives("scalar")
def last_until(p: Pool) -> Any:
    bound = p.pick("scalar")

    def step(element: Any, state: Any) -> Any:
        return state + element, until(state > bound)

    vector = pt.concatenate([_double(p.pick("vector")), pt.ones(1)])
    return scan(step, sequences=[vector], outputs_info=[pt.constant(0.0, dtype="float64")])[-1]


@family.gives("vector")
def host_inside(p: Pool) -> Any:
    start = _double(p.pick("vector"))
    return scan(lambda state: host_sort(pt.sin(state)) / 2, outputs_info=[start], n_steps=3)[-1]


@family.gives("vector")
def mask_inside(p: Pool) -> Any:
    return scan(lambda row: row[row > 0].sum(), sequences=[_double(p.pick("matrix"))])


@family.gives("vector")
def set_inside(p: Pool) -> Any:
    vector = _double(p.pick("vector"))
    return scan(
        lambda place, state: pt.inc_subtensor(state[place], 1.0),
        sequences=[p.pick("index")],
        outputs_info=[vector],
    ).sum(axis=0)


@family.gives("vector")
def counted(p: Pool) -> Any:
    """The counter, of a narrow type, is an index and a bound in the loop."""
    vector = p.some()
    counter = pt.arange(p.length(6), dtype=p.one_of(["int8", "uint8", "int64"]))
    body = p.one_of(
        [
            lambda k: vector[:k].sum(),
            lambda k: vector[k - 1],
            lambda k: vector[k:].prod(),
            lambda k: pt.zeros(k).sum() + k,
            lambda k: vector[pt.mod(k, 2) :].max(),
        ]
    )
    return scan(body, sequences=[counter])


@family.gives("vector")
def steps_from_size(p: Pool) -> Any:
    start = _double(p.pick("vector"))
    return scan(lambda state: pt.tanh(state) + 0.5, outputs_info=[start], n_steps=_steps(p))[-1]


@family.gives("matrix")
def states_for_size(p: Pool) -> Any:
    start = _double(p.pick("vector"))[:5]
    return scan(lambda state: state * 0.5 - 1, outputs_info=[start], n_steps=_steps(p))


@family.gives("vector")
def nested(p: Pool) -> Any:
    steps = p.length(4)
    bound = steps if p.choose(2) else 3

    def inner(row: Any) -> Any:
        return scan(
            lambda element, state: state * 0.5 + element,
            sequences=[row],
            outputs_info=[pt.constant(0.0, dtype="float64")],
            n_steps=None if p.seed % 2 else pt.minimum(bound, row.shape[0]),
        ).sum()

    return scan(inner, sequences=[_double(p.pick("matrix"))])


@family.gives("vector")
def nested_states(p: Pool) -> Any:
    curve = p.one_of(CURVES[:2])

    def outer(state: Any) -> Any:
        return scan(lambda s: curve(s) + 0.1, outputs_info=[state], n_steps=2)[-1]

    return scan(outer, outputs_info=[_double(p.pick("vector"))], n_steps=pt.abs(p.length(3)) + 1)[
        -1
    ]


@family.gives("vector")
def taps(p: Pool) -> Any:
    start = _double(p.pick("vector"))[:4]
    first = pt.stack([start, start * 2])
    return scan(
        lambda two, one: one * 0.5 + two,
        outputs_info=[{"initial": first, "taps": [-2, -1]}],
        n_steps=p.one_of([3, pt.abs(p.length(4)) + 1]),
    )[-1]


@family.gives("vector")
def integer_state(p: Pool) -> Any:
    """In the type of the state: C leaves open what a uint64 makes of the 2.0**64 of a sum."""
    dtype = p.one_of(NARROW)
    three = pt.constant(3, dtype=dtype)
    return scan(
        lambda element, state: pt.cast(state * three + element, dtype),
        sequences=[pt.cast(p.pick("index"), dtype)],
        outputs_info=[pt.constant(1, dtype=dtype)],
    )


@family.gives("vector")
def backward(p: Pool) -> Any:
    return scan(
        lambda element, state: state + element,
        sequences=[_double(p.pick("vector"))],
        outputs_info=[pt.constant(0.0, dtype="float64")],
        go_backwards=True,
    )


@family.gives("vector")
def two_loops(p: Pool) -> Any:
    """A loop over the states of another one, in some order, that may compute what it did."""
    one, other, start = p.one_of(CURVES), p.one_of(CURVES), _double(p.some())[:6]
    steps = pt.abs(p.length(4)) + 2
    states = scan(
        lambda s: one(s) * 0.5 + other(s), outputs_info=[start], n_steps=steps
    ).owner.inputs[0]
    orders = [states[::-1], states[:-1][::-1], states[:0:-1], states[:-1], states[1:], states[::2]]
    later = scan(
        lambda before, state: state * other(before) + before,
        sequences=[p.one_of(orders)],
        outputs_info=[start],
        **({"n_steps": steps - 1} if p.choose(2) else {}),
    )
    return later[-1] + states[-1]


@family.gives("vector")
def gradient_of_states(p: Pool) -> Any:
    one, other, start = p.one_of(CURVES), p.one_of(CURVES), _double(p.some())[:6]
    taps = p.one_of([[-1], [-2, -1], [-3]])
    first = pt.stack([start * k for k in range(3)])[min(taps) :]
    states = scan(
        lambda row, *seen: row + one(seen[0]) * other(seen[-1] * 0.5),
        sequences=[pt.outer(pt.arange(4) * 0.1, start)],
        outputs_info=[{"initial": first, "taps": taps}],
    )
    cost = states[-1].sum() if p.choose(2) else (states**2).sum()
    return pt.grad(cost, start)


@family.gives("vector")
def gradient_of_map(p: Pool) -> Any:
    """Selections in a loop, differentiated."""
    vector = p.some()
    counter = pt.arange(p.length(5), dtype=p.one_of(["int8", "uint8", "int64"]))
    body = p.one_of(
        [
            lambda k: vector[:k].sum() ** 2,
            lambda k: pt.tanh(vector[k - 1]),
            lambda k: (vector[vector > 0] * k).sum(),
        ]
    )
    cost = scan(body, sequences=[counter]).sum()
    return p.with_tag_of(pt.grad(cost, vector, disconnected_inputs="ignore"), vector)


@family.gives("vector")
def gradient_of_while(p: Pool) -> Any:
    start = _double(p.pick("scalar"))
    found = scan(lambda s: (s * 2 + 1, until(s > 20)), outputs_info=[start], n_steps=5)
    return pt.grad(found[-1], start) * pt.ones(1)
