"""A `JAXFunction` is a PyTensor `Function`."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.compile.mode import Mode, get_mode
from pytensor.raise_op import Assert

import pytensor_jaxlink as pjl
from pytensor_jaxlink import JAXFunction, JAXLinker
from tests.helpers import PYTHON, assert_same, black_box, compile_both, sort_down

X = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "mode",
    [
        "JAXSELECTIVE",
        JAXLinker(),
        JAXLinker(jit=False),
        Mode(linker=JAXLinker()),
        Mode(linker="jaxselective"),
        Mode(linker=JAXLinker()).excluding("scan"),
        get_mode("JAXSELECTIVE").including("fusion"),
    ],
    ids=["name", "linker", "linker_without_jit", "mode", "linker_name", "excluding", "including"],
)
def test_every_way_to_ask_for_it(mode: Any) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], pt.exp(x) * 2 + 1, mode=mode)
    assert type(f) is JAXFunction
    assert isinstance(f(X), jax.Array)
    np.testing.assert_allclose(f(X), np.exp(X) * 2 + 1)


def test_options_survive_the_mode() -> None:
    x = pt.dvector("x")
    mode = Mode(linker=JAXLinker(outputs="numpy")).including("fast_run")
    assert type(pytensor.function([x], x * 2, mode=mode)(X)) is np.ndarray


def test_as_the_configured_mode() -> None:
    x = pt.dvector("x")
    with pytensor.config.change_flags(mode=get_mode("JAXSELECTIVE")):
        assert type(pytensor.function([x], x * 2)) is JAXFunction


def test_numpy_outputs_are_writable() -> None:
    x, state = pt.dvector("x"), pytensor.shared(X.copy(), "state")
    mode = JAXLinker(outputs="numpy")
    f = pytensor.function([x], [x * 2, x.sum()], updates={state: state + x}, mode=mode)
    double, total = f(X)
    assert type(double) is np.ndarray
    assert type(total) is np.ndarray
    double[0] = 7.0
    assert type(state.get_value(borrow=True)) is np.ndarray


@pytest.mark.parametrize(
    ("build", "breaks"),
    [
        (lambda x: x * 2, 0),
        (lambda x: [x * 2, x.sum()], 0),
        (lambda x: Assert("positive")(x.sum(), x.sum() > 0), 0),
        (lambda x: [black_box(sort_down)(x).cumsum(), x.sum()], 1),
        (black_box(sort_down), 1),
    ],
)
def test_numpy_outputs_take_the_fast_path(build: Any, breaks: int) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], build(x), mode=JAXLinker(outputs="numpy"))
    expected = pytensor.function([x], build(x), mode="FAST_COMPILE")(X)
    for _ in range(3):
        found = f(X)
    several = isinstance(expected, list)
    for one, other in zip(
        found if several else [found], expected if several else [expected], strict=True
    ):
        assert type(one) is np.ndarray
        assert one.flags.writeable
        np.testing.assert_allclose(one, other)
    assert f.stats.direct == 3
    assert f.explain().graph_break_count == breaks
    assert (f.stats.bytes_to_host > 0) == bool(f.plan.regions)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3), (2, 3)])
def test_numpy_outputs_of_all_types(dtype: str, shape: tuple[int, ...]) -> None:
    x = pt.tensor("x", dtype=dtype, shape=(None,) * len(shape))
    f = pytensor.function([x], [x.T, x], mode=JAXLinker(outputs="numpy"))
    given = np.ones(shape, dtype)
    for found, expected in zip(f(given), [given.T, given], strict=True):
        assert type(found) is np.ndarray
        assert found.flags.owndata
        assert found.flags.writeable
        assert not np.shares_memory(found, given)
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.cpu("a result of a GPU is never there when the call ends")
def test_numpy_outputs_cost_a_frame_each() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], [x * 2, x.sum()], mode=JAXLinker(outputs="numpy"))
    f(X)

    def frames() -> int:
        called = []
        sys.setprofile(lambda frame, event, _: called.append(frame) if event == "call" else None)
        try:
            f(X)
        finally:
            sys.setprofile(None)
        return len(called)

    # The call, its end, the answer, before Python 3.12 one for arguments of NumPy, and for each
    # output one frame and JAX's property `sharding`.  A result that is not there yet costs more.
    assert min(frames() for _ in range(30)) <= 4 + (sys.version_info < (3, 12)) + 2 * 2


def test_a_false_assertion_with_numpy_outputs_raises() -> None:
    x, state = pt.dvector("x"), pytensor.shared(X.copy(), "state")
    total = Assert("positive")(x.sum(), x.sum() > 0)
    mode = JAXLinker(outputs="numpy")
    f = pytensor.function([x], total, updates={state: state + total}, mode=mode)
    assert f(np.ones(3)) == 3.0
    with pytest.raises(AssertionError, match="positive"):
        f(-np.ones(3))
    np.testing.assert_allclose(state.get_value(), X + 3)


class TestState:
    def setup_method(self) -> None:
        self.x = pt.dvector("x")
        self.total = pytensor.shared(np.zeros(3), "total")
        self.count = pytensor.shared(0, "count")
        self.f = pytensor.function(
            [self.x],
            self.total.sum(),
            updates={self.total: self.total + self.x, self.count: self.count + 1},
            mode="JAXSELECTIVE",
        )

    def test_updates(self) -> None:
        assert [float(self.f(X)) for _ in range(3)] == [0.0, 6.0, 12.0]
        assert int(self.count.get_value()) == 3
        self.total.set_value(np.ones(3))
        assert float(self.f(X)) == 3.0

    def test_a_failed_call_changes_nothing(self) -> None:
        self.f(X)
        with pytest.raises(ValueError, match="broadcast"):
            self.f(X[:2])
        assert int(self.count.get_value()) == 1
        np.testing.assert_array_equal(self.total.get_value(), X)

    def test_swap(self) -> None:
        other = pytensor.shared(10, "other")
        g = self.f.copy(swap={self.count: other})
        assert type(g) is JAXFunction
        g(X)
        assert (int(self.count.get_value()), int(other.get_value())) == (0, 11)

    def test_pickle(self) -> None:
        self.f(X)
        g = pickle.loads(pickle.dumps(self.f))
        assert type(g) is JAXFunction
        assert float(g(X)) == 6.0
        assert int(self.count.get_value()) == 1

    def test_deepcopy(self) -> None:
        self.f(X)
        g = copy.deepcopy(self.f)
        assert type(g) is JAXFunction
        assert float(g(X)) == 6.0
        assert float(g(X)) == 12.0
        assert int(self.count.get_value()) == 1

    def test_get_shared(self) -> None:
        assert set(self.f.get_shared()) == {self.total, self.count}

    def test_the_pure_function_takes_and_gives_state(self) -> None:
        output, *updates = self.f.jax_fn(X, *(s.get_value() for s in self.f.get_shared()))
        assert float(output) == 0.0
        assert len(updates) == 2


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": lambda f: f.copy(),
    "copy of a copy": lambda f: f.copy().copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda f: pickle.loads(pickle.dumps(f)),
    "copy of a pickle": lambda f: pickle.loads(pickle.dumps(f)).copy(),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_have_no_more_breaks(name: str) -> None:
    """The step of the loop selects by a mask, which a rewrite of the inner graph removes."""
    x = pt.dmatrix("x")
    sums = pytensor.scan(
        lambda row, before: before + row[row > before].sum(),
        sequences=x,
        outputs_info=pt.as_tensor(np.float64(0)),
        return_updates=False,
    )
    f = pytensor.function([x], [sums[-1], x[x > 0].sum()], mode="JAXSELECTIVE")
    g = COPIES[name](f)
    assert f.explain().graph_break_count == 0
    assert g.explain().graph_break_count == 0
    assert sorted(map(str, g.explain().rewritten)) == sorted(map(str, f.explain().rewritten))
    assert str(g.plan) == str(f.plan)
    given = np.random.default_rng(0).normal(size=(4, 3))
    for one, other in zip(g(given), f(given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_failing_host_step_changes_nothing() -> None:
    def refuse(values: np.ndarray) -> np.ndarray:
        raise RuntimeError("the black box is empty")

    x, state = pt.dvector("x"), pytensor.shared(X.copy(), "state")
    f = pytensor.function(
        [x], black_box(refuse)(pt.exp(x)), updates={state: state * 2}, mode="JAXSELECTIVE"
    )
    with pytest.raises(RuntimeError, match="the black box is empty") as caught:
        f(X)
    assert "test_function.py" in "\n".join(caught.value.__notes__)
    np.testing.assert_array_equal(state.get_value(), X)


def test_a_failing_check_changes_nothing() -> None:
    x, state = pt.dvector("x"), pytensor.shared(X.copy(), "state")
    checked = Assert("must be positive")(pt.exp(x) * 2, pt.all(x > 0))
    f = pytensor.function([x], checked, updates={state: state * 2}, mode="JAXSELECTIVE")
    f(X)
    with pytest.raises(AssertionError, match="must be positive"):
        f(-X)
    np.testing.assert_array_equal(state.get_value(), X * 2)
    assert f.explain().graph_count == 1


def test_checks_can_be_ignored() -> None:
    x = pt.dvector("x")
    checked = Assert("must be positive")(pt.exp(x) * 2, pt.all(x > 0))
    f = pytensor.function([x], checked, mode=JAXLinker(checks="ignore"))
    np.testing.assert_allclose(f(-X), np.exp(-X) * 2)


def test_small_functions() -> None:
    x = pt.dvector("x")
    np.testing.assert_array_equal(pytensor.function([x], x, mode="JAXSELECTIVE")(X), X)
    assert pytensor.function([], [], mode="JAXSELECTIVE")() == []
    assert float(pytensor.function([], pt.constant(2.0), mode="JAXSELECTIVE")()) == 2.0
    state = pytensor.shared(np.zeros(3))
    pytensor.function([x], updates={state: x}, mode="JAXSELECTIVE")(X)
    np.testing.assert_array_equal(state.get_value(), X)


def test_keywords_profile_and_trust() -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    f = pytensor.function([x, n], x[:n], mode="JAXSELECTIVE")
    np.testing.assert_array_equal(f(n=2, x=X), X[:2])
    trusted = pytensor.function([x], x * 2, mode="JAXSELECTIVE", trust_input=True)
    np.testing.assert_array_equal(trusted(jax.numpy.asarray(X)), X * 2)


def test_a_name_of_several_inputs() -> None:
    one, two, three = pt.dscalars("x", "x", "y")
    f = pytensor.function([one, two, three], one + 2 * two + 4 * three, mode="JAXSELECTIVE")
    assert f(1.0, 2.0, y=3.0) == f(1.0, 2.0, 3.0) == 17.0
    with pytest.raises(TypeError, match="Ambiguous name: x"):
        f(1.0, y=3.0, x=2.0)
    state = pytensor.shared(1.0, name="x")
    f = pytensor.function([one], one * state, mode="JAXSELECTIVE")
    with pytest.raises(TypeError, match="Ambiguous name: x"):
        f(x=2.0)


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("options", [{}, {"jit": False}, {"outputs": "numpy"}, {"donate": "all"}])
def test_the_other_byte_order(options: dict[str, Any], trusted: bool) -> None:
    """Once JAX has compiled for a type, it reads other bytes as if they were native."""
    x, v, state = pt.dvector("x"), pt.lvector("v"), pytensor.shared(X.copy())
    graphs: list[Any] = [x * 2, pt.unique(x * 2) * 2, x[v], x[: v[0]].sum(), pt.unique(x) + v[0]]
    graphs = graphs if options.get("jit", True) else graphs[:1]
    places = np.array([2, 0, 1])
    for graph in graphs:
        f, g = compile_both([x, v], graph, JAXLinker(**options))
        f.trust_input = trusted
        for values in ((X, places), (X, places.astype(">i8")), (X.astype(">f8"), places)):
            for _ in range(2):
                assert_same(f(*values), g(*values))
                assert_same(f(x=values[0], v=values[1]), g(*values))
    updating = pytensor.function([x], updates={state: state + x}, mode=JAXLinker(**options))
    updating.trust_input = trusted
    updating(X)
    updating(X.astype(">f8"))
    np.testing.assert_array_equal(state.get_value(), 3 * X)


def test_padded_arguments_of_the_other_byte_order() -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], x * 2, mode="JAXSELECTIVE")
    for length in range(3, 9):
        values = np.arange(float(length))
        np.testing.assert_array_equal(f(values.astype(">f8")), 2 * values)
        np.testing.assert_array_equal(f(values), 2 * values)


@pytest.mark.parametrize("dtype", ["int64", "int8", "float64", "bool"])
def test_strict_scalars_are_arrays(dtype: str) -> None:
    """What JAX traces does not show whether it is a number or an array."""
    x = pt.scalar("x", dtype=dtype)
    f, g = (
        pytensor.function([In(x, strict=True)], x + x, mode=mode) for mode in (JAXLinker(), PYTHON)
    )
    number = np.ones((), dtype)[()]
    f(np.asarray(number))
    for value in (number, number.item()):
        for function in (f, g):
            with pytest.raises(TypeError, match="expected an ndarray"):
                function(value)
    assert_same(f(np.asarray(number)), g(np.asarray(number)))


@pytest.mark.parametrize("dtype", [">f8", "longdouble", object, "masked"])
@pytest.mark.parametrize("options", [{}, {"host_ops": "callback"}, {"outputs": "numpy"}])
def test_results_of_kinds_that_jax_has_not(dtype: Any, options: dict[str, Any]) -> None:
    """A black box may return them; they get the declared dtype."""
    as_given = np.ma.array if dtype == "masked" else (lambda values: values.astype(dtype))
    x, n = pt.dvector("x"), iter(range(100))
    other = black_box(lambda values: as_given(values + 1) if next(n) % 2 else values + 1)
    for graph in (other(x), pt.exp(other(x)), pt.unique(other(x)) * 2, x[: other(x).argmax()]):
        f = pytensor.function([x], graph, mode=JAXLinker(**options))
        expected = f(X)
        for _ in range(3):
            assert_same(f(X), np.asarray(expected))


@pytest.mark.filterwarnings("ignore:region 0 was compiled")
@pytest.mark.parametrize("options", [{}, {"dynamic": False, "recompile_limit": 1}])
def test_masked_arrays_of_new_lengths(options: dict[str, Any]) -> None:
    """Their data is computed with, as by PyTensor; JAX refuses them."""
    x, s = pt.dvector("x"), pytensor.shared(X)
    f, g = compile_both([x], [x * 2, x.sum(), s[::-1]], JAXLinker(**options))
    for length in (3, 3, 4, 5, 5):
        value = np.ma.array(np.arange(length) + 0.5, mask=np.arange(length) > 1)
        s.set_value(value)
        assert_same(f(value), g(value))


class TestExplanation:
    def test_text(self) -> None:
        x, n = pt.dvector("x"), pt.lscalar("n")
        f = pytensor.function([x, n], pt.unique(pt.exp(x[: n // 2])) * n, mode="JAXSELECTIVE")
        text = str(f.explain())
        assert text.splitlines()[:4] == [
            "2 regions, 1 graph break",
            "static inputs: n",
            "region 0: 2 operations; compiled for each value of (n // 2)",
            "region 1: 2 operations",
        ]
        assert "test_function.py" in text

    def test_other_forms(self) -> None:
        x = pt.dvector("x")
        explanation = pytensor.function([x], pt.unique(x) * 2, mode="JAXSELECTIVE").explain()
        assert "(data-dependent shape)" in explanation._repr_html_()
        assert explanation.to_dict()["graph_break_count"] == 1
        assert explanation.to_dot().startswith("digraph plan {")
        assert explanation.breaks[0].remedy

    def test_without_running(self) -> None:
        x = pt.dvector("x")
        output = pt.exp(x)[: x.argmax(), None] * x
        assert pjl.explain(output).graph_break_count == 1
        assert pjl.explain([output, x * 2]).graph_count == 2
        other = pytensor.function([x], output, mode="FAST_COMPILE")
        assert pjl.explain(other).graph_break_count == 1
        other(X)  # the function that was explained is as it was

    def test_shared_variables(self) -> None:
        x, shared = pt.dvector("x"), pytensor.shared(np.zeros(3), "state")
        assert pjl.explain(pt.unique(x + shared)).graph_break_count == 1
        assert pjl.explain([shared.sum(), x]).graph_break_count == 0

    @pytest.mark.parametrize("given", [3, None, "x", [3], np.ones(2)])
    def test_what_has_no_graph_is_refused(self, given: Any) -> None:
        expected = "explain takes a PyTensor function, a variable, or a list of variables; found "
        with pytest.raises(TypeError, match=expected + r".* \[PJL906\]$"):
            pjl.explain(given)

    def test_a_function_of_ours_is_explained_as_it_is(self) -> None:
        x = pt.dvector("x")
        f = pytensor.function([x], x * 2, mode="JAXSELECTIVE")
        assert pjl.explain(f) == f.explain()


def test_a_copy_has_the_names_of_its_results_once() -> None:
    x, w = pt.dvector("x"), pytensor.shared(np.ones(3), name="w")
    f = pytensor.function([x], (x * w).sum(), updates={w: w + x}, mode="JAXSELECTIVE")
    assert f.output_names[1:] == ("w",)
    copied = f.copy()
    assert copied.output_names == f.output_names
    assert copied.updates == f.updates == {1: 1}
    assert len(copied.jax_fn(np.ones(3), np.ones(3))) == 2
    assert f.copy(delete_updates=True).output_names == f.output_names[:1]
