"""Buffers of gradients of loops: an entry is added to what the steps have added."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scan.op import Scan

from pytensor_jaxlink import jaxify
from pytensor_jaxlink.lowering.loop_rules import layout_of
from pytensor_jaxlink.lowering.summed_entries import summed_buffers
from tests.benchmarks.workloads import WORKLOADS
from tests.helpers import check_against_python

RHO, SHOCKS, Y, START = pt.dvectors("rho", "shocks", "y", "start")
ROWS, FIRST = pt.dmatrix("rows"), pt.dvector("first")
RNG = np.random.default_rng(0)
VALUES = (np.array([0.6, 0.3]), RNG.normal(size=9), RNG.normal(size=9), np.array([0.5, -1.0]))
MATRIX = (RNG.normal(size=(6, 3)), RNG.normal(size=3))


def states(*, taps: tuple[int, ...] = (-2, -1), **options: Any) -> pt.TensorVariable:
    """A process that looks back a few steps."""

    def step(shock: Any, *past: Any) -> Any:
        return sum(RHO[i] * pt.tanh(state) for i, state in enumerate(past)) + shock

    return pytensor.scan(
        step,
        sequences=[SHOCKS],
        outputs_info=[{"initial": START if min(taps) < -1 else START[0], "taps": list(taps)}],
        return_updates=False,
        **options,
    )


def rows() -> pt.TensorVariable:
    """A process of vectors that looks back one step."""
    return pytensor.scan(
        lambda row, state: pt.sin(state) * row + state[0],
        sequences=[ROWS],
        outputs_info=[FIRST],
        return_updates=False,
    )


def gradient(loss: Any) -> Any:
    return pytensor.grad(loss, [RHO, SHOCKS, START])


def gradient_of_rows(loss: Any) -> Any:
    return pytensor.grad(loss, [ROWS, FIRST])


LOSSES: dict[str, tuple[Any, bool]] = {
    "all states": (lambda s: ((Y - s) ** 2).sum(), True),
    "their sum": (lambda s: s.sum(), True),
    "the last states": (lambda s: (s[3:] ** 2).sum(), True),
    "all, and the last twice": (lambda s: (s**2).sum() + 3 * s[-1], True),
    "the last state": (lambda s: s[-1] ** 2, False),
    "two single states": (lambda s: s[-1] ** 2 * pt.exp(s[2]), False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_which_buffers_are_summed(name: str) -> None:
    loss, expected = LOSSES[name]
    f = check_against_python([RHO, SHOCKS, Y, START], gradient(loss(states())), VALUES)
    loops = [node for node in f.maker.fgraph.toposort() if isinstance(node.op, Scan)]
    backward = [node for node in loops if node.op.info.n_mit_mot]
    layouts = [layout_of(node.op) for node in backward]
    found = [
        summed
        for node, layout in zip(backward, layouts, strict=True)
        if layout is not None
        for summed in summed_buffers(node, layout)
    ]
    assert found == [expected]


@pytest.mark.parametrize("name", ["all, and the last twice", "two single states"])
@pytest.mark.parametrize("taps", [(-1,), (-2,), (-3, -1)])
def test_other_distances(name: str, taps: tuple[int, ...]) -> None:
    loss, _ = LOSSES[name]
    outputs = gradient(loss(states(taps=taps)))
    arguments = (*VALUES[:3], RNG.normal(size=-min(taps)))
    check_against_python([RHO, SHOCKS, Y, START], outputs, arguments)


@pytest.mark.parametrize("options", [{"go_backwards": True}, {"n_steps": 4}])
def test_options_of_loops(options: dict[str, Any]) -> None:
    loss = (states(**options) ** 2).sum()
    check_against_python([RHO, SHOCKS, START], gradient(loss), (*VALUES[:2], VALUES[3]))


def test_rows_and_second_derivatives() -> None:
    loss = (pt.exp(rows()) ** 2).sum()
    first = gradient_of_rows(loss)
    second = gradient_of_rows(sum((g**3).sum() for g in first))
    check_against_python([ROWS, FIRST], [*first, *second], MATRIX)


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_values(special: float) -> None:
    y = VALUES[2].copy()
    y[[0, 4, 8]] = special
    loss = (Y * states()).sum()  # the gradient of a state is `y`
    outputs = pytensor.grad(loss, [SHOCKS, START])
    f = check_against_python([RHO, SHOCKS, Y, START], outputs, (*VALUES[:2], y, VALUES[3]))
    zeros = np.full(9, -0.0)
    found = f(np.zeros(2), np.zeros(9), zeros, np.zeros(2))
    expected = pytensor.function([RHO, SHOCKS, Y, START], outputs, mode="FAST_COMPILE")(
        np.zeros(2), np.zeros(9), zeros, np.zeros(2)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


def test_what_users_trace() -> None:
    outputs = gradient((states() ** 2).sum())
    function = jaxify([RHO, SHOCKS, START], outputs)
    arguments = (*VALUES[:2], VALUES[3])
    plain = pytensor.function([RHO, SHOCKS, START], outputs, mode="FAST_COMPILE")(*arguments)
    for found in (jax.jit(function)(*arguments), function(*arguments)):
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    batched = jax.jit(jax.vmap(function))(*(np.stack([a, 2 * a]) for a in arguments))
    np.testing.assert_allclose(batched[1][0], plain[1], rtol=1e-12)


def kernels(function: Any, *arguments: Any) -> int:
    return jax.jit(function).lower(*arguments).compile().as_text().count(" fusion(")


@pytest.mark.cpu("other compilers make other kernels")
def test_as_many_kernels_as_by_hand() -> None:
    workload = WORKLOADS["AR(2) scan"]()
    f = pytensor.function(workload.inputs, workload.outputs, mode="JAXSELECTIVE")
    assert kernels(f.jax_fn, *workload.arguments) <= kernels(workload.by_hand, *workload.arguments)
