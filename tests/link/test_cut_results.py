"""Results of a length that is data: a region computes them in full, and they are cut after it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pytensor_jaxlink import JAXLinker, load, profile, save

x, m, n, k = pt.dvector("x"), pt.dmatrix("m"), pt.lscalar("n"), pt.lscalar("k")

GRAPHS: dict[str, Callable[[], Any]] = {
    "slice": lambda: x[:n],
    "elementwise": lambda: pt.exp(x[:n]) * 2,
    "running sum": lambda: pt.cumsum(x[:n]),
    "centred": lambda: x[:n] - x[:n].sum(),
    "stretch": lambda: x[k:n] * 3,
    "to the end": lambda: x[n:] + 1,
    "backward": lambda: x[:n][::-1],
    "differences": lambda: x[1:n] - x[: n - 1],
    "steps": lambda: [pt.exp(x[:n:2]), x[k:n:3] + 1, x[:n:2] * 2 - x[:n:2].sum()],
    "rows": lambda: pt.tanh(m[:n]),
    "columns": lambda: m[:, :n] * 2,
    "outer product": lambda: pt.outer(x[:n], x[:k]),
    "product": lambda: m[:n] @ m.T,
    "distances": lambda: (x[:n, None] - x[None, :n]) ** 2,
    "sorted": lambda: pt.sort(x[:n]),
    "gathered": lambda: x[pt.argsort(x[:n])],
    "counted": lambda: x[:n] + pt.arange(n).astype("int8"),
    "two": lambda: [x[:n], x[:n].sum(), x[:k] + 1, x],
    "both": lambda: [pt.exp(x[:n]), x + 1],
    "gradient": lambda: pytensor.grad((x[:n] ** 2).sum(), x)[:n],
    "solution": lambda: pt.linalg.solve(m[:n] @ m[:n].T + 50 * pt.eye(n), m[:n, 0]),
    "scan": lambda: pytensor.scan(
        lambda v, s: s * 0.5 + v,
        sequences=[x[:n]],
        outputs_info=[np.float64(0.0)],
        return_updates=False,
    ),
}
STATIC = {"gathered"}
"""Those of which the size stays static."""

CALLS = [
    (6, 3, 2), (6, 5, 2), (6, 0, 0), (6, 6, 1), (6, 9, 2), (6, -2, 3), (6, -9, 1), (4, 3, 2),
    (70, 65, 64), (70, 66, 3), (1, 1, 1), (0, 3, 2), (6, 3, -1),
]  # fmt: skip


def arguments(length: int, n: int, k: int) -> tuple[Any, ...]:
    draw = np.random.default_rng(length)
    vector = draw.normal(size=length)
    if length > 5:
        vector[-1] = np.inf
    return vector, draw.normal(size=(length, 5)), n, k


def outcome(f: Any, values: tuple[Any, ...]) -> Any:
    try:
        found = f(*values)
    except Exception as error:
        return type(error)
    return [np.asarray(value) for value in (found if isinstance(found, list) else [found])]


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, type):
        assert found is expected
        return
    assert not isinstance(found, type), found
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def functions(name: str, **options: Any) -> tuple[Any, Any]:
    inputs, outputs = [x, m, n, k], GRAPHS[name]()
    return tuple(
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(**options), pytensor.compile.mode.Mode("py", "fast_run"))
    )


@pytest.mark.parametrize("dynamic", [True, "auto"])
@pytest.mark.parametrize("name", GRAPHS)
def test_results(name: str, dynamic: Any) -> None:
    f, python = functions(name, dynamic=dynamic)
    for call in CALLS:
        values = arguments(*call)
        compare(outcome(f, values), outcome(python, values))
    assert not f.explain().breaks
    if name not in STATIC:
        assert any("are cut when they leave" in text for text in f.explain().sizes)


@pytest.mark.parametrize("name", ["differences", "lag", "last", "matrix", "turned"])
def test_results_of_padded_arguments(name: str) -> None:
    """Their lengths follow from those of arguments, and are others."""
    outputs = {
        "differences": x[1:] - x[:-1],
        "lag": [x[3:], x.sum()],
        "last": x[-2:],
        "matrix": m[1:, 1:] * 2,
        "turned": x[::-1][1:],
    }[name]
    f = pytensor.function([x, m], outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
    python = pytensor.function(
        [x, m], outputs, mode=pytensor.compile.mode.Mode("py", "fast_run"), on_unused_input="ignore"
    )
    for length in (6, 5, 9, 1, 0, 64, 65, 130, 3):
        values = arguments(length, 0, 0)[:2]
        compare(outcome(f, values), outcome(python, values))
    assert f.stats.padded_calls >= 6
    assert sum(f.stats.compilations) == 1


def test_two_programs_serve_all_values() -> None:
    f, python = functions("elementwise")
    for size in range(40):
        values = arguments(50, size, 0)
        compare(outcome(f, values), outcome(python, values))
    assert sum(f.stats.compilations) == 1
    assert sum(f.stats.padded.compilations) == 1
    assert not f.stats.fallbacks
    assert not sum(f.stats.host_region_calls)


@pytest.mark.parametrize(
    "options",
    [
        {"outputs": "numpy"},
        {"donate": "all"},
        {"recompile_limit": 1},
        {"checks": "ignore"},
        {"host_ops": "callback"},
    ],
    ids=str,
)
def test_options(options: Any) -> None:
    f, python = functions("two", **options)
    for call in CALLS[:6]:
        values = arguments(*call)
        compare(outcome(f, values), outcome(python, values))
    if options.get("outputs") == "numpy":
        assert all(type(value) is np.ndarray for value in f(*values))


def test_arrays_of_jax() -> None:
    f, python = functions("elementwise")
    for size in (3, 5, 5, 2):
        values = arguments(6, size, 0)
        found = f(*map(jax.numpy.asarray, values[:2]), jax.numpy.asarray(size), 0)
        assert isinstance(found, jax.Array)
        compare([np.asarray(found)], outcome(python, values))


def test_updates() -> None:
    """A shared variable whose new value has a length that is data."""
    state = pytensor.shared(np.arange(6.0), shape=(None,))
    f = pytensor.function([n], state.sum(), updates={state: state[:n] * 2}, mode="JAXSELECTIVE")
    expected = np.arange(6.0)
    for size in (5, 4, 3, 2, 0):
        assert f(size) == expected.sum()
        expected = expected[:size] * 2
        np.testing.assert_array_equal(state.get_value(), expected)


def test_a_failed_call_changes_nothing() -> None:
    state = pytensor.shared(np.arange(6.0), shape=(None,))
    fails = pt.vector("fails")
    f = pytensor.function(
        [x, n, fails], x[:n] + fails, updates={state: state[:n]}, mode="JAXSELECTIVE"
    )
    for size in (5, 4):
        f(np.ones(6), size, np.ones(size))
    with pytest.raises(ValueError, match="could not be broadcast"):
        f(np.ones(6), 3, np.ones(2))
    assert state.get_value().shape == (4,)


def test_a_value_that_comes_often_has_its_own_program() -> None:
    f, python = functions("elementwise")
    for size in (3, 5, *[4] * 40):
        values = arguments(6, size, 0)
        compare(outcome(f, values), outcome(python, values))
    assert sum(f.stats.compilations) == 2


def test_much_more_work_is_not_worth_it() -> None:
    """Specialised for the first values, as long as there are few of them."""
    f, python = functions("distances", recompile_limit=4)
    for size in range(2, 12):
        values = arguments(400, size, 0)
        compare(outcome(f, values), outcome(python, values))
        if size < 5:
            assert sum(f.stats.compilations) == size - 1
    assert sum(f.stats.compilations) <= 4
    assert f.stats.padded is not None
    assert not sum(f.stats.host_region_calls)


def test_what_users_do_with_functions(tmp_path: Any) -> None:
    f, python = functions("two")
    calls = [arguments(*call) for call in CALLS[:4]]
    for values in calls[:2]:
        f(*values)
    for g in (f.copy(), pickle.loads(pickle.dumps(f))):
        for values in calls:
            compare(outcome(g, values), outcome(python, values))
    save(f, tmp_path / "f", graph=False)
    loaded = load(tmp_path / "f")  # it has code for the values that have been seen
    for values in calls[:2]:
        compare(outcome(loaded, values), outcome(python, values))
    with profile(f) as found:
        f(*calls[0])
    assert "cut" in str(found)
