"""Loops and branches: traced where they can be, executed by the host where they break inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.scan.utils import until
from pytensor.tensor.blockwise import Blockwise

from pytensor_jaxlink.compat import ifelse
from tests.edges.compare import outcome, same
from tests.helpers import assert_same, black_box, check_against_python, compile_both

X = np.array([1.5, -0.5, 2.0, 0.25])


class Counter:
    """An Op without a JAX rule, which counts how often it runs."""

    def __init__(self, scale: float = 2.0) -> None:
        self.calls = 0

        def scaled(array: Any) -> Any:
            self.calls += 1
            return array * scale

        self.op = black_box(scaled)


def scan(step: Any, **options: Any) -> Any:
    return pytensor.scan(step, return_updates=False, **options)


def doubling(limit: Any, steps: Any = 20) -> Any:
    def step(state: Any) -> Any:
        return state * 2, until(state.sum() * 2 > limit)

    return lambda x: scan(step, outputs_info=[x], n_steps=steps)


class TestWhile:
    """Scans that end when a condition holds."""

    def test_last_state_without_a_break(self) -> None:
        x = pt.dvector("x")
        f = check_against_python([x], doubling(50.0)(x)[-1] + 1, (X,), (X * 100,))
        assert f.explain().graph_break_count == 0
        assert f.explain().graph_count == 1

    def test_trace_with_one_break(self) -> None:
        x = pt.dvector("x")
        f = check_against_python([x], doubling(50.0)(x) + 1, (X,), (X * 100,))
        assert f.explain().graph_break_count == 1

    def test_never_ends(self) -> None:
        x = pt.dvector("x")
        f = check_against_python([x], doubling(1e9, steps=4)(x), (X,))
        assert f(X).shape == (4, 4)

    def test_symbolic_limit_of_steps(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = check_against_python([x, n], doubling(50.0, n)(x)[-1], (X, 3), (X, 20))
        assert f.explain().graph_break_count == 0
        assert f.stats.compilations == [1]  # the number of steps is an argument like others

    def test_sequences_taps_and_free_outputs(self) -> None:
        x, y = pt.dvector("x"), pt.dvector("y")

        def step(element: Any, before: Any, last: Any) -> Any:
            new = before + last * element
            return [new, new**2], until(new > 20)

        states, squares = scan(
            step, sequences=[y], outputs_info=[{"initial": x, "taps": [-2, -1]}, None]
        )
        values = np.array([1.0, 1.0]), np.arange(1.0, 9.0)
        check_against_python([x, y], [states, squares], values)
        f = check_against_python([x, y], [states[-1], squares[-1]], values)
        assert f.explain().graph_break_count == 0

    def test_gradient(self) -> None:
        x = pt.dvector("x")
        check_against_python([x], pt.grad(doubling(50.0)(x)[-1].sum(), x), (X,), (X * 100,))

    def test_inside_a_scan(self) -> None:
        m = pt.dmatrix("m")
        out = scan(lambda row: doubling(50.0)(row)[-1], sequences=[m])
        f = check_against_python([m], out, (np.stack([X, X * 3]),))
        assert f.explain().graph_break_count == 0

    def test_a_loop_of_no_steps(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        check_against_python([x, n], doubling(50.0, n)(x), (X, 0), (X, 2))

    @pytest.mark.parametrize("kept", ["all", "last", "new"])
    def test_the_step_of_an_empty_sequence_needs_no_value(self, kept: str) -> None:
        """The first entry of an empty row: no step asks for it."""
        x, m = pt.dvector("x"), pt.dmatrix("m")

        def step(row: Any, state: Any = 0.0) -> Any:
            return state + row[0], until(state + row[0] > 1)

        start = [] if kept == "new" else [pt.zeros(())]
        steps = (x > 0).sum()
        out = scan(step, sequences=[m], outputs_info=start, n_steps=steps)
        full, empty = np.ones((4, 2)), np.zeros((0, 0))
        f = check_against_python(
            [x, m], out[-1] if kept == "last" else out, (X, full), (X * 0, empty), (X[:0], empty)
        )
        assert not f.explain().failures
        assert outcome(f, X, empty) is ValueError

    def test_a_selection_is_added_to_itself_before_the_steps_are_counted(self) -> None:
        """One node reads the entries that are added, and, for its shape, the same array again."""
        counts, n = pt.vector("counts", dtype="uint8"), pt.lscalar("n")
        array = counts[n:].astype("float64")
        chosen = array > 0
        doubled = pt.inc_subtensor(array[chosen], array[chosen])

        def step(entry: Any, state: Any) -> Any:
            return state + entry, until(state > 2)

        out = scan(step, sequences=[doubled], outputs_info=[np.float64(0)])
        values = np.array([5, 0, 2, 2, 3, 0, 1], dtype="uint8")
        check_against_python([counts, n], out, (values, 1), (values, -3), (values[:3], 0))

    def test_assertion_inside(self) -> None:
        x = pt.dvector("x")

        def step(state: Any) -> Any:
            checked = pt.specify_shape(state, (4,))
            return pytensor.raise_op.Assert("too large")(checked * 2, (checked < 100).all()), until(
                state.sum() > 1e6
            )

        out = scan(step, outputs_info=[x], n_steps=10)
        f = pytensor.function([x], out[-1], mode="JAXSELECTIVE")
        assert f(X * 1e-3).shape == (4,)
        with pytest.raises(AssertionError, match="too large"):
            f(X)


def test_last_state_after_a_number_of_steps_computed_from_data() -> None:
    x = pt.dvector("x")
    steps = pt.cast(pt.floor(pt.exp(x).sum()), "int64")
    out = scan(lambda s: s / 2, outputs_info=[x], n_steps=steps)[-1] * 2
    f = check_against_python([x], out, (X,), (X[::-1] * 0.1,))
    assert f.explain().graph_break_count == 0
    assert f.stats.compilations == [1]


class TestNumberOfStepsAsInput:
    """Where only the last state is kept, one compilation serves all numbers."""

    def function(self) -> Any:
        x, n = pt.dvector("x"), pt.lscalar("n")
        out = scan(lambda s: pt.tanh(s) + 0.1, outputs_info=[x], n_steps=n)[-1]
        return check_against_python([x, n], out, *((X, k) for k in (1, 5, 2, 30, 0)))

    def test_compiled_once(self) -> None:
        f = self.function()
        assert f.stats.compilations == [1]
        assert f.static_argnums == ()

    def test_jax_differentiates_it_where_the_number_is_concrete(self) -> None:
        f = self.function()
        total = lambda x, n: f.jax_fn(x, n)[0].sum()  # noqa: E731
        plain = jax.grad(total)(X, 3)
        jitted = jax.jit(jax.grad(total), static_argnums=1)(X, 3)
        np.testing.assert_allclose(plain, jitted)
        assert np.isfinite(plain).all()

    def test_negative_numbers_raise(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        out = scan(lambda s: s + 1, outputs_info=[x], n_steps=n)[-1]
        functions = compile_both([x, n], out)
        for f in functions:
            with pytest.raises(IndexError, match="negative number of step"):
                f(X, -1)


class TestHostExecutedLoops:
    """Scans with a break in their step."""

    def graph(self, x: Any, black_box: Any) -> Any:
        def step(state: Any) -> Any:
            return pt.tanh(black_box(pt.sin(state) + 1)) * 3

        return scan(step, outputs_info=[pt.exp(x)], n_steps=5)

    def test_inner_regions_are_compiled_once(self) -> None:
        x, counter = pt.dvector("x"), Counter()
        out = self.graph(x, counter.op)
        f = check_against_python([x], [out, out[-1] * 2], (X,), (X / 2,))
        assert f.explain().graph_break_count == 1
        assert "scaled" in str(f.explain())
        # Before, in the step before and after the black box, after the loop.
        assert f.stats.compilations == [1] * f.explain().graph_count
        assert f.explain().graph_count == 4
        assert max(f.stats.region_calls) == 5 * 2  # five steps in each of two calls

    def test_a_mask_inside(self) -> None:
        m = pt.dmatrix("m")
        out = scan(lambda row: pt.exp(row)[row > 0].sum() * 2, sequences=[m])
        check_against_python([m], out, (np.stack([X, -X, X * 0]),))

    def test_gradient_with_a_break_inside(self) -> None:
        m = pt.dmatrix("m")
        out = scan(lambda row: pt.exp(row)[row > 0].sum() * 2, sequences=[m])
        check_against_python([m], pt.grad(out.sum(), m), (np.stack([X, -X, X * 0]),))

    def test_while_with_a_break_inside(self) -> None:
        x, counter = pt.dvector("x"), Counter()

        def step(state: Any) -> Any:
            new = counter.op(state)
            return [new, new.sum()], until(new.sum() > 50)

        states, sums = scan(step, outputs_info=[x, None], n_steps=20)
        check_against_python([x], [states, sums], (X,), (X * 100,))
        check_against_python([x], [states[-1], sums[-1]], (X,), (X * 100,))

    def test_random_state_is_carried(self) -> None:
        rng, x, counter = pytensor.shared(np.random.default_rng(3)), pt.dvector("x"), Counter()

        def step(state: Any, generator: Any) -> Any:
            after, noise = pt.random.normal(size=(4,), rng=generator).owner.outputs
            return counter.op(state) + noise, after

        states, after = scan(step, outputs_info=[x, rng], n_steps=3)
        f = pytensor.function([x], states, updates={rng: after}, mode="JAXSELECTIVE")
        first, second = f(X), f(X)
        assert not np.allclose(first, second)
        rng.set_value(np.random.default_rng(3))
        np.testing.assert_array_equal(f(X), first)

    def test_failure_leaves_shared_variables_alone(self) -> None:
        @black_box
        def fails(array: Any) -> Any:
            if array.sum() > 10:
                raise RuntimeError("the black box failed")
            return array * 2

        x, total = pt.dvector("x"), pytensor.shared(1.0)
        out = scan(fails, outputs_info=[x], n_steps=6)
        f = pytensor.function([x], out[-1], updates={total: total + 1}, mode="JAXSELECTIVE")
        f(X * 1e-6)
        with pytest.raises(RuntimeError, match="the black box failed"):
            f(X)
        assert total.get_value() == 2.0


class TestBranches:
    """`ifelse`: the work of one side is done only when that side is taken."""

    def test_traced(self) -> None:
        x = pt.dvector("x")
        out = ifelse(x.sum() > 0, pt.exp(x) * 2, pt.log(-x))
        f = check_against_python([x], out * 2, (X,), (-X,))
        assert (f.explain().graph_count, f.explain().graph_break_count) == (1, 0)

    def test_only_the_taken_side_runs(self) -> None:
        first, second, x = Counter(2.0), Counter(3.0), pt.dvector("x")
        out = ifelse(x.sum() > 0, first.op(pt.exp(x)) * 2, second.op(pt.exp(-x)) * 3)
        f = pytensor.function([x], out + 1, mode="JAXSELECTIVE")
        np.testing.assert_allclose(f(X), np.exp(X) * 4 + 1)
        assert (first.calls, second.calls) == (1, 0)
        np.testing.assert_allclose(f(-X), np.exp(X) * 9 + 1)
        assert (first.calls, second.calls) == (1, 1)
        assert max(f.stats.compilations) == 1

    def test_checks_of_the_other_side_do_not_count(self) -> None:
        x = pt.dvector("x")
        positive = pytensor.raise_op.Assert("not positive")(x, (x > 0).all())
        f = pytensor.function([x], ifelse(x.sum() > 0, pt.log(positive), x), mode="JAXSELECTIVE")
        np.testing.assert_allclose(f(-X), -X)
        np.testing.assert_allclose(f(X * X), np.log(X * X))
        assert f.stats.fallbacks == 0
        with pytest.raises(AssertionError, match="not positive"):
            f(X)

    def test_sides_of_different_lengths(self) -> None:
        x = pt.dvector("x")
        out = ifelse(x.sum() > 0, x[:2] * 2, x) + 1
        f, reference = compile_both([x], out)
        for value in (X, -X, X):
            assert_same(f(value), reference(value))
        assert f.stats.fallbacks == 1  # JAX says so when it traces; then the host chooses
        assert "give both sides the same shapes" in str(f.explain())

    def test_nested(self) -> None:
        counter, x, y = Counter(), pt.dvector("x"), pt.dvector("y")
        inner = ifelse(y.sum() > 0, counter.op(x), x * 5)
        out = ifelse(x.sum() > 0, inner + 1, x * 7)
        f = pytensor.function([x, y], out, mode="JAXSELECTIVE")
        for a in (X, -X):
            for b in (X, -X):
                expected = (a * 2 if b.sum() > 0 else a * 5) + 1 if a.sum() > 0 else a * 7
                np.testing.assert_allclose(f(a, b), expected)
        assert counter.calls == 1

    def test_inside_a_loop_with_a_break(self) -> None:
        counter, m = Counter(), pt.dmatrix("m")
        out = scan(lambda row: ifelse(row.sum() > 0, counter.op(row) + 1, row * 3), sequences=[m])
        f = check_against_python([m], out, (np.stack([X, -X, X]),))
        counter.calls = 0
        f(np.stack([X, -X, X]))
        assert counter.calls == 2

    def test_several_outputs_and_gradient(self) -> None:
        x = pt.dvector("x")
        first, second = ifelse(x.sum() > 0, [pt.exp(x), x * 2], [x**2, x * 3])
        check_against_python([x], [first, second], (X,), (-X,))
        check_against_python([x], pt.grad((first * second).sum(), x), (X,), (-X,))

    def test_random_draws_in_one_side(self) -> None:
        rng, x = pytensor.shared(np.random.default_rng(3)), pt.dvector("x")
        noise = pt.random.normal(size=(4,), rng=rng)
        f = pytensor.function([x], ifelse(x.sum() > 0, x + noise, x), mode="JAXSELECTIVE")
        np.testing.assert_array_equal(f(X), f(X))
        np.testing.assert_array_equal(f(-X), -X)


class TestBlockwise:
    """Inner graphs over batches."""

    def test_of_a_graph_with_a_mask(self) -> None:
        v, m = pt.dvector("v"), pt.dmatrix("m")
        inner = OpFromGraph([v], [pt.exp(v).cumsum() * pt.sort(v)])
        check_against_python([m], Blockwise(inner, signature="(n)->(n)")(m), (np.stack([X, -X]),))

    @pytest.mark.filterwarnings("ignore:Numba will use object mode")  # PyTensor 3.0's own Blockwise
    def test_of_a_graph_with_a_break(self) -> None:
        v, m, counter = pt.dvector("v"), pt.dmatrix("m"), Counter()
        inner = OpFromGraph([v], [counter.op(pt.exp(v)) * 2])
        f = check_against_python(
            [m], Blockwise(inner, signature="(n)->(n)")(m) + 1, (np.stack([X, -X]),)
        )
        assert f.explain().graph_break_count == 1
        assert f.explain().graph_count == 2

    def test_of_an_assertion(self) -> None:
        v, m = pt.dvector("v"), pt.dmatrix("m")
        checked = pytensor.raise_op.Assert("not positive")(v, (v > 0).all())
        batched = Blockwise(OpFromGraph([v], [pt.log(checked)]), signature="(n)->(n)")
        f = pytensor.function([m], batched(m), mode="JAXSELECTIVE")
        np.testing.assert_allclose(f(np.stack([X * X, X * X])), np.log(np.stack([X * X, X * X])))
        with pytest.raises(AssertionError, match="not positive"):
            f(np.stack([X * X, X]))


def test_plans_of_loops_can_be_read() -> None:
    x, counter = pt.dvector("x"), Counter()
    out = scan(lambda s: counter.op(pt.sin(s)), outputs_info=[x], n_steps=3)
    f = pytensor.function([x], out[-1], mode="JAXSELECTIVE")
    text = str(f.plan)
    assert "loop " in text
    assert "    region 0" in text or "    region 1" in text
    assert isinstance(f(X), jax.Array)


@pytest.mark.parametrize("kind", ["branch", "batch"])
def test_what_has_no_checks_costs_none(kind: str) -> None:
    x, m, v = pt.dvector("x"), pt.dmatrix("m"), pt.dvector("v")
    if kind == "branch":
        f = pytensor.function([x], ifelse(x.sum() > 0, pt.exp(x), -x), mode="JAXSELECTIVE")
        value = X
    else:
        batched = Blockwise(OpFromGraph([v], [v.cumsum()]), signature="(n)->(n)")
        f = pytensor.function([m], batched(m), mode="JAXSELECTIVE")
        value = np.stack([X, X])
    lowered = jax.jit(f.jax_fn).lower(value)
    assert len(lowered.out_info) == 1
    f(value)
    [region] = f._compiled.lowered.functions
    _, conditions = region((), value)
    assert conditions == ()


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "last": lambda x, n: scan(lambda t: t * 2, outputs_info=[x], n_steps=n)[-1],
    "trace": lambda x, n: scan(lambda t: t * 2, outputs_info=[x], n_steps=n),
    "two taps": lambda x, n: scan(
        lambda a, b: a + b, outputs_info=[{"initial": x, "taps": [-1, -2]}], n_steps=n
    )[-1],
    "until": lambda x, n: scan(lambda t: (t * 2, until(t.sum() > 9)), outputs_info=[x], n_steps=n)[
        -1
    ],
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_negative_number_of_steps_raises_as_where_buffers_are_allocated(name: str) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f, reference = compile_both([x, n], LOOPS[name](x, n).sum())
    for steps in (1, 0, -1, -2, -3):
        assert same(outcome(f, np.ones(2), steps), outcome(reference, np.ones(2), steps)), steps
