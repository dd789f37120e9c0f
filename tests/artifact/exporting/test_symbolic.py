"""One file serves any number of rows, gradients included; in loops too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax import errors, export
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.scan.utils import until

from pytensor_jaxlink import ArtifactError, NotSavedError, inspect, load, save
from tests.artifact.compiled.test_compiled import open_regions
from tests.artifact.damage import members_of
from tests.helpers import black_box, sort_down

X, Y = pt.dmatrix("x"), pt.dvector("y")
ZERO = pt.constant(np.float64(0))
W = pytensor.shared(np.array([0.5, -1.0, 2.0]), name="w")
GRAPHS: dict[str, Callable[[], Any]] = {}
DERIVED = ("all_states", "levels", "masks")
"""Those that JAX differentiates too."""


def graph(build: Callable[[], Any]) -> Callable[[], Any]:
    GRAPHS[build.__name__] = build
    return build


def scan(step: Any, sequences: Any, initial: Any = None, **options: Any) -> Any:
    return pytensor.scan(step, sequences, initial, return_updates=False, **options)


@graph
def all_states() -> Any:
    states = scan(lambda r, y, s: pt.tanh(s * 0.5 + r.sum() * 0.1 + y), [X, Y], [ZERO])
    return states.sum() + states[-1]


@graph
def two_steps_back() -> Any:
    taps = {"initial": pt.zeros(2, dtype=X.dtype), "taps": [-1, -2]}
    return (scan(lambda r, a, b: 0.5 * a - 0.2 * b + r, [Y], [taps]) ** 2).sum() + X.sum()


@graph
def lengths_that_the_loop_makes_equal() -> Any:
    return (
        scan(lambda r, s: pt.tanh(s + r), [X], [pt.zeros(3, dtype=X.dtype)]) @ W
    ).sum() + Y.sum()


@graph
def as_many_steps_as_rows() -> Any:
    states = scan(lambda s: s * 0.99 + 0.1, None, [ZERO + 1], n_steps=X.shape[0], strict=True)
    return (states * Y).sum()


@graph
def a_length_inside_of_a_loop() -> Any:
    return scan(lambda r, s: s + r / X.shape[0], [Y], [ZERO])[-1] + X.mean()


@graph
def backwards() -> Any:
    states = scan(lambda r, s: s * 0.5 + r, [Y], [ZERO], go_backwards=True)
    return (states * Y).sum() + X.sum()


@graph
def parts_of_a_whole() -> Any:
    return pt.concatenate([Y, Y[::-1], pt.zeros(2, dtype=X.dtype)]).cumsum().sum() + X.sum()


@graph
def masks() -> Any:
    return Y[Y > 0].sum() + X[X > 0.5].mean() + pt.exp(X[Y > 0]).sum()


@graph
def levels() -> Any:
    return -0.5 * ((Y - W[pt.cast(pt.abs(Y), "int64") % 3]) ** 2).sum() + (X**2).mean()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GRAPHS)
def test_rows(name: str, tmp_path: Path) -> None:
    cost = GRAPHS[name]()
    gradients = pytensor.grad(cost, [X, Y], disconnected_inputs="ignore")
    f = pytensor.function([X, Y], [cost, *gradients], mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False, vjp_order=int(name in DERIVED))
    assert open_regions(tmp_path / "f") == [True]
    loaded = load(tmp_path / "f")
    for rows in (1, 7, 10_000):
        rng = np.random.default_rng(rows)
        given = rng.normal(size=(rows, 3)), np.abs(rng.normal(size=rows))
        expected, found = f(*given), loaded(*given)
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-10)
        if name in DERIVED:
            state = [cell.get_value() for cell in loaded.state]
            derived = jax.jit(jax.grad(lambda *xy: loaded.jax_fn(*xy, *state)[0], (0, 1)))(*given)  # noqa: B023
            for one, other in zip(expected[1:], derived, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_matrices_of_unknown_size(tmp_path: Path) -> None:
    distances = ((X[:, None, :] - X[None, :, :]) ** 2).sum(-1)
    factor = pt.linalg.cholesky(pt.exp(-distances) + pt.eye(X.shape[0]))
    f = pytensor.function([X], pt.log(pt.diag(factor)).sum(), mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False)
    for rows in (1, 7, 50):
        given = np.random.default_rng(rows).normal(size=(rows, 3))
        np.testing.assert_allclose(load(tmp_path / "f")(given), f(given), rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_checks_beside_open_sizes(tmp_path: Path) -> None:
    i = pt.lscalar("i")
    half = X.shape[0] // 2
    outputs = [X[i, 1:].sum(), X[half:, 2].sum(), X[X.shape[0] - 1, 0], pt.inc_subtensor(X[i], 1.0)]
    f = pytensor.function([X, i], outputs, mode="JAXSELECTIVE")
    f(np.ones((4, 3)), 0)
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    given = np.arange(12.0).reshape(4, 3)
    for row in (0, 3, -4):
        for one, other in zip(f(given, row), loaded(given, row), strict=True):
            np.testing.assert_array_equal(one, other)
    for row in (4, -5):
        with pytest.raises(IndexError):
            loaded(given, row)


@pytest.mark.parametrize("index", ["places", "slice"])
def test_what_is_set_into_no_entries(index: str, tmp_path: Path) -> None:
    """JAX does not look at the length of values there."""
    x, n = pt.dvector("x"), pt.lscalar("n")
    part = x[np.array([], dtype="int64")] if index == "places" else x[: n * 0 : 2]
    f = pytensor.function([x, Y, n], pt.set_subtensor(part, Y) + n, mode="JAXSELECTIVE")
    values = np.arange(3.0)
    with pytest.raises(ValueError, match="broadcast"):
        f(values, np.ones(5), 1)
    assert len(f(values, np.ones(0), 1)) == 3
    save(f, tmp_path / "f.jaxlink", graph=False)
    loaded = load(tmp_path / "f.jaxlink")
    assert len(loaded(values, np.ones(0), 1)) == 3
    for given in (np.ones(5), np.ones(2)):
        with pytest.raises(ValueError, match="check of the saved function"):
            loaded(values, given, 1)


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "maximum": lambda y: y.max(),
    "minimum of integers": lambda y: y.astype("int8").min(),
    "gradient of a maximum": lambda y: pytensor.grad(y.max(), y),
    "maxima of rows": lambda y: pt.outer(y, y).max(axis=1),
    "place of the largest": lambda y: y.argmax(),
    "softmax": lambda y: pt.special.softmax(y),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_parts_that_may_be_empty(name: str, tmp_path: Path) -> None:
    """`y.shape[0] - 2` entries: JAX takes it for at least 1 where it compares it with 0."""
    output = REDUCTIONS[name](Y[: Y.shape[0] - 2])
    python = pytensor.function([Y], output, mode="FAST_COMPILE")
    f = pytensor.function([Y], output, mode="JAXSELECTIVE")
    f(np.ones(6))
    save(f, tmp_path / "f")
    loaded = load(tmp_path / "f", prefer="compiled")
    for rows in (9, 3, 2, 1, 0):
        given, expected, error = np.arange(1.0, rows + 1), None, None
        try:
            expected = python(given)
        except ValueError as raised:
            error = raised
        if error is None:
            np.testing.assert_allclose(loaded(given), expected)
        else:
            with pytest.raises(ValueError, match=r"zero-size|empty|no entries"):
                loaded(given)


def test_loops_that_end_by_a_condition_have_no_reverse_mode(tmp_path: Path) -> None:
    y = pt.dvector("y")
    sums = pytensor.scan(
        lambda entry, before: (before + entry, until(before > 5)),
        sequences=y,
        outputs_info=pt.as_tensor(np.float64(0)),
        name="running",
        return_updates=False,
    )
    f = pytensor.function([y], sums[-1], mode="JAXSELECTIVE")
    with pytest.raises(ArtifactError) as raised:
        save(f, tmp_path / "f", vjp_order=1)
    assert re.sub(r"\{.*\}", "", str(raised.value)) == (
        "vjp_order=1: JAX cannot differentiate region 0 backward, because it has no reverse mode "
        "for a loop that ends by a condition: While[Scan]. Save with vjp_order=0, or save a "
        "function that returns the gradient, which PyTensor takes of such loops too. [PJL713]"
    )
    assert "Scan{running" in str(raised.value)
    assert not (tmp_path / "f").exists()
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")
    for length in (1, 3, 9):
        assert loaded(np.arange(1.0, 1 + length)) == f(np.arange(1.0, 1 + length))


def test_only_the_strongest_condition_is_kept(tmp_path: Path) -> None:
    y = pt.dvector("y")
    products = pytensor.scan(
        lambda one, other: one * other,
        sequences=[{"input": y, "taps": [0, -3]}],
        return_updates=False,
    )
    f = pytensor.function([y], products.sum(), mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False)
    assert str(inspect(tmp_path / "f")).count("y >= ") == 1
    assert load(tmp_path / "f")(np.arange(4.0)) == 0


class NeedsThree(Op):
    """The entry at place 2, by a rule that compares lengths as JAX's own functions do."""

    __props__ = ()

    def make_node(self, array: Any) -> Apply:
        return Apply(self, [array], [pt.dscalar()])

    def infer_shape(self, *_: Any) -> list[Any]:
        return [()]

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = np.asarray(inputs[0][2])


@jax_funcify.register(NeedsThree)
def _needs_three(op: NeedsThree, **_: Any) -> Any:
    def third(array: Any) -> Any:
        try:
            assert array.shape[0] >= 3
        except errors.InconclusiveDimensionOperation:
            raise errors.InconclusiveDimensionOperation("a text that says nothing") from None
        return array[2]

    return third


def test_lengths_that_only_jax_compares(tmp_path: Path) -> None:
    x, y = pt.dvector("x"), pt.dvector("y")
    f = pytensor.function([x, y], NeedsThree()(pt.exp(x)) + y.sum(), mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False)
    assert "where x >= 3" in str(inspect(tmp_path / "f"))
    loaded = load(tmp_path / "f")
    for length in (3, 8):
        given = np.arange(length, dtype="float64"), np.ones(length - 2)
        np.testing.assert_allclose(loaded(*given), f(*given), rtol=1e-14)
    with pytest.raises(NotSavedError, match="x >= 3"):
        loaded(np.ones(2), np.ones(1))


@pytest.mark.cpu("barriers are for its compiler")
def test_code_for_open_dimensions_has_barriers(tmp_path: Path) -> None:
    """Without them XLA computes a long chain again for each value of it that is read."""
    x = pt.dvector("x")
    states = [x]
    for _ in range(20):
        states.append(pt.tanh(states[-1]) * pt.exp(-states[-1]))
    f = pytensor.function([x], sum(states), mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False)
    [code] = [each for name, each in members_of((tmp_path / "f").read_bytes()) if "hlo" in name]
    module = export.deserialize(bytearray(code)).mlir_module()
    assert "tensor<?xf64>" in module
    assert module.count("optimization_barrier") >= 5
    np.testing.assert_allclose(load(tmp_path / "f")(np.ones(4)), f(np.ones(4)), rtol=1e-14)


@pytest.mark.parametrize("vjp_order", [0, 1])
def test_no_paths_of_the_author(vjp_order: int, tmp_path: Path) -> None:
    x = pt.dvector("x")
    f = pytensor.function([x], [pt.exp(x).sum(), x[pt.argmax(x)]], mode="JAXSELECTIVE")
    f(np.ones(3))
    before = f.stats.compilations[:]
    save(f, tmp_path / "f", vjp_order=vjp_order)
    content = b"".join(each for _, each in members_of((tmp_path / "f").read_bytes()))
    for folder in (Path(__file__).parents[3], Path(jax.__file__).parents[1]):
        assert str(folder).encode() not in content
    f(np.ones(3))
    assert f.stats.compilations == before


def test_lengths_with_names_alike_are_not_equal(tmp_path: Path) -> None:
    """Axis 0 of a matrix x would be called as the vector x_0 is."""
    lone, (one, two) = pt.dvector("x_0"), pt.dvectors(2)
    one.name = two.name = "a b"
    other, third = pt.dvector("a_b"), pt.dvector("a_b_2")
    vectors = [lone, one, two, other, third]
    f = pytensor.function([X, *vectors], [X * 2, *vectors], mode="JAXSELECTIVE")
    given = [np.ones((2, 3)), *(np.arange(float(n)) for n in (4, 5, 6, 7, 8))]
    for dims in ({}, {"a_b": ("x_0",)}, {"x": ("a_b", "x_0")}):
        save(f, tmp_path / "f", graph=False, dims=dims)
        found = load(tmp_path / "f")(*given)
        for value, expected in zip(found, [given[0] * 2, *given[1:]], strict=True):
            np.testing.assert_array_equal(value, expected)


def test_lengths_that_are_computed_have_other_names_than_inputs(tmp_path: Path) -> None:
    x, others = pt.dvector("x"), [pt.dvector(f"v{number}_0") for number in range(20, 30)]
    computed = black_box(sort_down)(x * 2)  # on the host, with a length of its own
    sums = sum((other.sum() for other in others), computed.sum())
    f = pytensor.function([x, *others], sums, mode="JAXSELECTIVE")
    save(f, tmp_path / "f", graph=False)
    given = [np.arange(float(n + 1)) for n in range(11)]
    found = load(tmp_path / "f", allow=("tests.helpers",))(*given)
    np.testing.assert_allclose(found, f(*given))
