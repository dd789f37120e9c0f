"""A loop over the traces of another one takes what that one has computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import graph_inputs
from pytensor.scan import scan_checkpoints
from pytensor.scan.op import Scan
from pytensor.scan.utils import until

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.compat import EMPTY_SOFTMAX_RAISES
from pytensor_jaxlink.rewriting import traces
from pytensor_jaxlink.rewriting.hoisting import hoist_from_loops
from pytensor_jaxlink.rewriting.steps import of_entries
from pytensor_jaxlink.rewriting.traces import share_traces
from tests.helpers import check_against_python, compile_both
from tests.link.test_dynamic_sizes import answer, assert_same

X, W = pt.dmatrices("x", "w")
START, V = pt.dvectors("start", "v")
RNG = np.random.default_rng(0)
VALUES = (RNG.normal(size=(6, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=3))
INPUTS = [X, W, START, V]
ZERO = pt.zeros((3,), dtype="float64")
FUNCTIONS = ("Cos", "Exp", "Sigmoid", "Sin", "Tanh")


def scan(step: Any, **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def gradient(states: Any, *wrt: Any) -> list[Any]:
    return pytensor.grad((states**2).sum(), list(wrt))


def loops_of(graph: FunctionGraph) -> list[Any]:
    return [node for node in graph.toposort() if isinstance(node.op, Scan)]


def dear(nodes: Any) -> list[str]:
    """The names of operations that are worth a trace."""
    names = (str(node.op).split("{")[0] for node in nodes)
    return sorted(name for name in names if name in FUNCTIONS)


def work(graph: FunctionGraph) -> list[str]:
    """What is computed in loops but the first one, and for their steps before them."""
    _, *later = loops_of(graph)
    return sorted(
        sum((dear(loop.op.fgraph.apply_nodes) for loop in later), dear(graph.apply_nodes))
    )


def rewritten(outputs: Any) -> FunctionGraph:
    """A graph as it is when the rewrite comes."""
    inputs = [v for v in graph_inputs(outputs) if not isinstance(v, Constant)]
    graph = FunctionGraph(inputs, list(outputs), clone=True)
    get_mode("JAXSELECTIVE").optimizer.rewrite(graph)
    hoist_from_loops(graph)
    return graph


def smooth(row: Any, before: Any) -> Any:
    return row + before * pt.exp(-(before**2))


def smoothed() -> Any:
    return scan(smooth, sequences=[X], outputs_info=[START])


def with_output() -> tuple[Any, Any]:
    """A loop that keeps a function of its next state too."""

    def step(row: Any, before: Any) -> tuple[Any, Any]:
        state = row + pt.sin(before)
        return state, pt.tanh(state)

    states, outputs = scan(step, sequences=[X], outputs_info=[START, None])
    return states, outputs


def markov() -> Any:
    """The forward algorithm of a hidden Markov model."""
    alphas = scan(
        lambda row, alpha, w: row + pt.logsumexp(alpha[:, None] + w, axis=0),
        sequences=[X[1:]],
        outputs_info=[X[0]],
        non_sequences=[W],
    )
    return pt.logsumexp(alphas[-1])


def gated() -> Any:
    """A loop of the kind that networks have."""

    def step(row: Any, state: Any, w: Any) -> Any:
        gate = pt.sigmoid(row + state @ w)
        return (1 - gate) * state + gate * pt.tanh(row + (gate * state) @ w.T)

    return scan(step, sequences=[X], outputs_info=[START], non_sequences=[W])


def weighed() -> Any:
    """Weights that are normalised in each step."""

    def step(row: Any, weights: Any, w: Any) -> tuple[Any, Any]:
        new = (weights @ w) * row
        return new / pt.exp(new).sum(), pt.log(pt.exp(new).sum())

    return scan(step, sequences=[X], outputs_info=[START, None], non_sequences=[W])[1]


def second_order() -> Any:
    return scan(
        lambda row, two, one: row + pt.sin(one) * pt.exp(two),
        sequences=[X],
        outputs_info=[{"initial": pt.stack([START, V]), "taps": [-2, -1]}],
    )


def with_lags() -> Any:
    return scan(
        lambda row, last, state: state * pt.exp(last * state) + row,
        sequences=[{"input": X, "taps": [0, -1]}],
        outputs_info=[START],
    )


def weigh(before: Any, state: Any, v: Any) -> Any:
    return pt.exp(-(before**2)) * state + v


def pair(order: slice, step: Any = weigh, first: Any = None, **options: Any) -> list[Any]:
    """A loop over the states of another one, with the first one, in some order; and the last."""
    states = (smoothed() if first is None else first).owner.inputs[0]
    options = {"n_steps": X.shape[0], "non_sequences": [V]} | options
    return [scan(step, sequences=[states[order]], outputs_info=[V], **options), states[-1]]


def pair_with_output() -> list[Any]:
    states, outputs = with_output()
    order = slice(None, 0, -1)
    later = pair(order, lambda now, state, v: pt.tanh(now) * state + v, states)
    return [*later, outputs.sum()]


BACKWARD, FORWARD = slice(-2, None, -1), slice(None, -1)

Case = tuple[Callable[[], list[Any]], list[str], int]

TAKEN: dict[str, Case] = {
    "gates": (lambda: gradient(gated(), X, W, START), [], 2),
    "weights": (lambda: gradient(weighed(), X, W, START), [], 3),
    "two states back": (lambda: gradient(second_order(), X), ["Cos"], 2),
    "lags of a sequence": (lambda: gradient(with_lags(), X), [], 1),
    "from the end": (lambda: pair(BACKWARD), [], 1),
    "in the same order": (lambda: pair(FORWARD), [], 1),
    "what is kept already": (pair_with_output, [], 0),
}
if EMPTY_SOFTMAX_RAISES:  # PyTensor 3.0 has a softmax in this gradient, and the loop has none
    after_the_loop = ["Exp"]
    TAKEN["the forward algorithm"] = (lambda: gradient(markov(), X, W), after_the_loop, 2)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name: str) -> None:
    outputs, after, traces = TAKEN[name]
    graph = rewritten(outputs())
    kept = loops_of(graph)[0].op.info.n_nit_sot
    assert len(work(graph)) > len(after)
    share_traces(graph)
    assert work(graph) == after
    loops = loops_of(graph)
    assert loops[0].op.info.n_nit_sot == kept + traces
    share_traces(graph)
    assert loops_of(graph) == loops


@pytest.mark.parametrize("name", TAKEN)
def test_the_same_values(name: str) -> None:
    outputs, *_ = TAKEN[name]
    f = check_against_python(INPUTS, outputs(), VALUES)
    assert f.explain().graph_break_count == 0


def halves(order: slice) -> list[Any]:
    """Two loops, of which the later one makes half of the steps."""
    return pair(order, n_steps=X.shape[0] // 2)


def with_until() -> list[Any]:
    def step(row: Any, before: Any) -> Any:
        state = smooth(row, before)
        return state, until(state.sum() > 100)

    return pair(BACKWARD, first=scan(step, sequences=[X], outputs_info=[START]))


def with_draws() -> list[Any]:
    """A loop whose state and generator change in each step."""
    rng = pytensor.shared(np.random.default_rng(0))

    def step(row: Any, before: Any) -> tuple[Any, Any]:
        new, draw = pt.random.normal(size=(3,), rng=rng).owner.outputs
        return row + pt.exp(before + draw), {rng: new}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of updates that are returned
        states, _ = pytensor.scan(step, sequences=[X], outputs_info=[START])
    other = pytensor.shared(np.random.default_rng(0))
    draw = pt.random.normal(size=(3,), rng=other)
    return pair(BACKWARD, lambda before, state, v: state * pt.exp(before + draw) + v, states)


def in_segments() -> list[Any]:
    """A gradient whose first loop keeps only the states between segments."""
    states: Any = scan_checkpoints(
        lambda before, row: smooth(row, before),
        outputs_info=START,
        non_sequences=V,
        n_steps=6,
        save_every_N=2,
    )
    states = states[0] if isinstance(states, tuple | list) else states
    return pytensor.grad((states[-1] ** 2).sum(), [START])


LEFT: dict[str, Callable[[], list[Any]]] = {
    "other steps": lambda: pair(slice(None, 0, -1)),
    "other steps, in the same order": lambda: pair(slice(1, None)),
    "fewer steps": lambda: halves(BACKWARD),
    "every other step": lambda: halves(slice(-2, None, -2)),
    "a place that is not known": lambda: pair(slice(pt.argmax(V), None, -1)),
    "another array": lambda: pair(
        BACKWARD,
        lambda before, state, v: pt.exp(before * v) * state,
        scan(
            lambda row, before, w: row + pt.exp(before * w[0]),
            sequences=[X],
            outputs_info=[START],
            non_sequences=[W],
        ),
    ),
    "cheap arithmetic": lambda: pair(
        BACKWARD,
        lambda before, state, v: (before**2 + 1) * state + v,
        scan(lambda row, before: row * (before**2 + 1), sequences=[X], outputs_info=[START]),
    ),
    "until": with_until,
    "draws": with_draws,
    "a truncated gradient": lambda: gradient(
        scan(smooth, sequences=[X], outputs_info=[START], truncate_gradient=2), X
    ),
    "segments": in_segments,
    "only the last state": lambda: [
        scan(
            lambda row, state, v: state + pt.tanh(W @ row) * v,
            sequences=[X[::-1]],
            outputs_info=[V],
            non_sequences=[
                scan(
                    lambda row, state: state * pt.tanh(W @ row), sequences=[X], outputs_info=[START]
                )[-1]
            ],
        )[-1]
    ],
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    graph = rewritten(LEFT[name]())
    before = loops_of(graph)
    assert len(before) == 2
    share_traces(graph)
    assert loops_of(graph) == before


def test_the_gradient_of_a_gradient() -> None:
    states = scan(lambda before: pt.sin(before), outputs_info=[START], n_steps=4)
    second = [pytensor.grad(pytensor.grad(states[-1].sum(), START).sum(), START)]
    graph = rewritten(second)
    before = work(graph)
    share_traces(graph)
    assert len(work(graph)) < len(before)
    check_against_python([START], second, VALUES[2:3])


@pytest.mark.parametrize("reduced", [lambda s: s[0], pt.sum, pt.max], ids=["entry", "sum", "max"])
def test_loops_with_equal_steps_over_other_buffers(reduced: Callable[[Any], Any]) -> None:
    """The two gradients have one graph of a step, and its variables may be the same."""
    states = scan(
        lambda row, state: pt.sin(state) * row + reduced(state),
        sequences=[X],
        outputs_info=[START],
    )
    [first] = gradient(states, X)
    outputs = gradient(first, X, START)
    check_against_python(INPUTS, outputs, VALUES)


def test_an_index_that_is_dear() -> None:
    """PyTensor makes a scalar of it, of which a loop keeps no trace; so the number is taken."""

    def step(row: Any, state: Any, v: Any) -> Any:
        place = pt.cast(pt.sigmoid(pt.exp(state)).sum(), "int64")
        return row + v[place] * state

    states = scan(step, sequences=[X], outputs_info=[START], non_sequences=[V])
    f = check_against_python(INPUTS, gradient(states, V, X), VALUES)
    assert f.explain().graph_break_count == 0


def test_segments_have_the_same_values() -> None:
    check_against_python([START, V], in_segments(), VALUES[2:])


def test_an_empty_loop() -> None:
    f, reference = compile_both(INPUTS, pair(BACKWARD))
    arguments = (VALUES[0][:0], *VALUES[1:])
    for found, expected in zip(f(*arguments), reference(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("excluded", "count"), [((), 0), (("jaxlink_traces",), 1)])
def test_it_can_be_excluded(excluded: tuple[str, ...], count: int) -> None:
    mode = get_mode("JAXSELECTIVE").excluding(*excluded)
    f = pytensor.function([X, START], gradient(smoothed(), X), mode=mode)
    assert f.plan.regions[0].operations.count("Exp") == count


K, L = pt.lscalar("k"), pt.lscalar("l")


def _sums(step: Callable[..., Any], sequences: list[Any]) -> Any:
    return pytensor.scan(
        step,
        sequences=sequences,
        outputs_info=[pt.zeros(())],
        n_steps=K,
        return_updates=False,
    )


def shorter() -> dict[str, Any]:
    """Loops over a trace and over sequences that may end before it."""
    x, y = pt.dvector("x"), pt.dvector("y")
    one = _sums(lambda p, s: s + pt.exp(p), [x])
    two = _sums(lambda p, q, s: s + pt.exp(p * q), [x, y])

    def last(sequence: Any) -> Any:
        return _sums(lambda p, a, s: s * pt.exp(p) + a, [sequence, one])

    graphs = {
        "a literal slice": last(x[:3]),
        "a slice to an argument": last(x[:L]),
        "all but the last": last(x[:-1]),
        "the last value": last(x[:L])[-1],
        "a function of a slice": _sums(lambda p, a, s: s * p + a, [pt.exp(x[:L]), one]),
        "a function of two": _sums(lambda p, a, s: s * p + a, [pt.exp(x[:L] * y[:K]), two]),
        "two sequences": _sums(lambda p, q, a, s: s * pt.exp(p * q) + a, [x[:L], y, two]),
    }
    return {name: ([x, y, K, L], graph) for name, graph in graphs.items()}


@pytest.mark.parametrize("dynamic", ["auto", False, True])
@pytest.mark.parametrize("name", shorter())
def test_sequences_that_are_too_short(name: str, dynamic: Any) -> None:
    """They are not read any more, and still have to be there."""
    inputs, output = shorter()[name]
    f, reference = compile_both(inputs, output, JAXLinker(dynamic=dynamic))
    values = np.arange(6.0) / 9
    for steps, stop in ((4, 3), (3, 3), (4, 6), (6, 5), (5, 6), (2, 2), (0, 0)):
        arguments = values, values + 1, steps, stop
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert not f.explain().failures


def test_a_sequence_that_is_computed_in_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of which reads the one before twice: it is looked into once."""
    x, looks = pt.dvector("x"), list[object]()

    def counted(array: object) -> object:
        looks.append(array)
        return of_entries(array)

    monkeypatch.setattr(traces, "of_entries", counted)

    def chain(value: Any) -> Any:
        for _ in range(24):
            value = value + pt.tanh(value)
        return value

    one = _sums(lambda p, s: s + chain(p), [x])
    two = _sums(lambda p, a, s: s * p + a, [chain(x[:L]), one])
    f, reference = compile_both([x, K, L], two, JAXLinker(dynamic=False))
    for steps, stop in ((2, 3), (3, 2)):
        arguments = np.array([0.1, 0.2, 0.3]), steps, stop
        assert_same(answer(f, arguments), answer(reference, arguments))
    assert 0 < len(looks) < 10_000
