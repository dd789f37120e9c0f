"""Graphs inside of Ops, with gradients of their own."""

from __future__ import annotations

from typing import Any

import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import disconnected_grad, grad_clip, grad_scale, zero_grad
from pytensor.tensor.blockwise import Blockwise

from tests.differential.grammar.arrays import host_sort
from tests.differential.grammar.family import Family
from tests.differential.grammar.pool import Pool

family = Family("wrapped")


def _double(value: Any) -> Any:
    return pt.cast(value, "float64")


@family.gives("vector")
def broken_inside(p: Pool) -> Any:
    v = pt.dvector()
    return OpFromGraph([v], [host_sort(v) + v[v > 0].sum()])(_double(p.real()))


@family.gives("vector")
def several_outputs(p: Pool) -> Any:
    v, size = pt.dvector(), p.pick("size")
    k = size.type()
    op = OpFromGraph([v, k], [v[:k], v * k], inline=bool(p.choose(2)))
    first, second = op(_double(p.real()), size)
    return pt.concatenate([first, second])


@family.gives("matrix")
def batched(p: Pool) -> Any:
    v = pt.dvector()
    inner = OpFromGraph([v], [pt.cumsum(pt.exp(-pt.abs(v))) / (1 + pt.abs(v).sum())])
    matrix = _double(p.real("matrix"))
    # PyTensor's own Blockwise refuses an empty batch.
    rows = pt.concatenate([matrix, pt.zeros((1, matrix.shape[1]))])
    return Blockwise(inner, signature="(n)->(n)")(rows)


def _with_slope(host: bool) -> Any:
    v = pt.dvector()
    value = host_sort(v) if host else pt.sin(v)
    return OpFromGraph([v], [value], pullback=lambda inputs, _, given: [given[0] * inputs[0] * 3])


@family.gives("vector")
def gradient_of_its_own(p: Pool) -> Any:
    vector = _double(p.real())
    found = _with_slope(bool(p.choose(2)))(vector)
    return p.with_tag_of(pt.grad((found * vector).sum(), vector), vector)


@family.gives("vector")
def overridden_gradient(p: Pool) -> Any:
    v = pt.dvector()
    op = OpFromGraph([v], [v**2], lop_overrides=lambda inputs, _, given: [given[0] * 5])
    vector = _double(p.real())
    return p.with_tag_of(pt.grad(pt.tanh(op(vector)).sum(), vector), vector)


def _passed_on(p: Pool, value: Any) -> Any:
    """A value that declares another gradient."""
    way = p.choose(4)
    if way == 3:
        return grad_clip(value, -0.5, 0.5)
    return grad_scale(value, 3.0) if way == 2 else (zero_grad, disconnected_grad)[way](value)


@family.gives("vector")
def passed_on(p: Pool) -> Any:
    vector = _double(p.real())
    return _passed_on(p, pt.sin(vector)) * vector


@family.gives("scalar")
def states_passed_on(p: Pool) -> Any:
    states = pytensor.scan(
        lambda entry, state: pt.tanh(_passed_on(p, state) + entry),
        sequences=[_double(p.real())],
        outputs_info=[pt.zeros(())],
        return_updates=False,
    )
    return states.sum()


@family.gives("vector")
def gradient_as_graph(p: Pool) -> Any:
    """The override is itself an `OpFromGraph`."""
    v, out, given = pt.dvector(), pt.dvector(), pt.dvector()
    back = OpFromGraph([v, out, given], [given * v + out])
    op = OpFromGraph([v], [pt.exp(-(v**2))], pullback=back)
    vector = _double(p.real())
    return p.with_tag_of(pt.grad(op(vector).sum(), vector), vector)


@family.gives("vector")
def ordinary_gradient(p: Pool) -> Any:
    v, w = pt.dvector(), pt.dvector()
    op = OpFromGraph([v, w], [v * w.sum() + pt.tanh(v)])
    vector = _double(p.real())
    return p.with_tag_of(pt.grad(op(vector, vector[:2]).sum(), vector), vector)


@family.gives("vector")
def override_in_loop(p: Pool) -> Any:
    """The gradient of a loop whose step has a gradient of its own."""
    vector = _double(p.real())
    op = _with_slope(bool(p.choose(2)))
    steps = p.one_of([2, pt.abs(p.length(3)) + 1])
    found = pytensor.scan(
        lambda state: op(state) * 0.5, outputs_info=[vector], n_steps=steps, return_updates=False
    )
    return p.with_tag_of(pt.grad(found[-1].sum(), vector), vector)


@family.gives("vector")
def override_of_one_of_two(p: Pool) -> Any:
    """Of two arguments, the first has an override and the second none."""
    v, w = pt.dvector(), pt.dscalar()
    op = OpFromGraph([v, w], [v * w, pt.tanh(v).sum()], lop_overrides=_half_of_its_own)
    vector, scale = _double(p.real()), pt.cast(p.pick("scalar"), "float64")
    first, second = op(vector, scale)
    return p.with_tag_of(pt.grad(first.sum() * second, vector), vector)


def _half_of_its_own(inputs: Any, _: Any, given: Any) -> Any:
    return [given[0] * inputs[1] * 2 + given[1], (given[0] * inputs[0]).sum()]
