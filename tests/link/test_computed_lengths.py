"""Results of a length that the function computes: they are cut when they leave, without a break."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode, get_mode
from pytensor.scan import scan
from pytensor.scan.utils import until

from pytensor_jaxlink import JAXLinker, NotJittableError, inspect, jaxify, load, profile, save
from pytensor_jaxlink.plan import CutOff
from tests.helpers import black_box, sort_down
from tests.link.test_cut_results import compare, outcome

X, M, N = pt.dvector("x"), pt.dmatrix("m"), pt.lscalar("n")
K = (X > 0).sum()
sort = black_box(sort_down)

GRAPHS: dict[str, Callable[[], Any]] = {
    "slice as it is": lambda: X[:K],
    "slice": lambda: X[:K] * 2,
    "mask as it is": lambda: X[X > 0],
    "mask": lambda: pt.exp(X[X > 0]),
    "places": lambda: X[pt.nonzero(X > 0)] + 1,
    "running sum": lambda: pt.cumsum(X[:K]),
    "from the end": lambda: X[-K:] * 2,
    "to the end": lambda: X[K:] * 2,
    "backward": lambda: X[:K][::-1] + 1,
    "by steps": lambda: X[:K:2],
    "by computed steps": lambda: X[:: K - 2],
    "part of a row": lambda: M[1, :K],
    "rows": lambda: M[:K] @ M.T,
    "rows and columns": lambda: M[:K, 1:K] * 2,
    "rows by a mask": lambda: M[X > 0][:, :K] - 1,
    "a mask of a matrix": lambda: pt.exp(M[M > 0]),
    "flags": lambda: X[:K] > 0.5,
    "integers": lambda: pt.argsort(X)[:K],
    "several": lambda: [X[:K] * 2, X[:K].sum(), X, K, X[X > 0]],
    "as it is, and its length": lambda: [X[X > 0], X[X > 0].shape[0], X[X > 0].sum()],
    "as it is, twice": lambda: [X[X > 0], X[:K], X[X > 0], X[:K]],
    "used inside": lambda: [X[X > 0] * 2, (X[X > 0] * 2).sum(), (X[X > 0] * 2).prod()],
    "read on the host": lambda: [X[X > 0], sort(X[X > 0]) * 2],
    "with a size": lambda: [X[:K] * N, X[:N].sum()],
}
HOST = {"read on the host"}


def arguments(length: int, seed: int, n: int = 2) -> tuple[Any, ...]:
    draw = np.random.default_rng(seed)
    x, m = draw.normal(size=length), draw.normal(size=(length, 5))
    if seed == 3:
        x[:] = -1.0  # nothing is selected
    if seed == 4 and length:
        x[:], m[0] = 1.0, np.nan
    return x, m, n


CALLS = [(6, 0), (6, 1), (6, 2), (6, 3), (6, 4), (5, 0), (1, 4), (1, 3), (0, 0), (70, 5), (71, 5)]


def functions(name: str, **options: Any) -> tuple[Any, Any]:
    outputs = GRAPHS[name]()
    return tuple(
        pytensor.function([X, M, N], outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(**options), Mode("py", "fast_run"))
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_values(name: str) -> None:
    f, python = functions(name)
    for length, seed in CALLS:
        values = arguments(length, seed)
        compare(outcome(f, values), outcome(python, values))
    assert (f.explain().graph_break_count == 0) == (name not in HOST)
    assert any(isinstance(step, CutOff) for step in f.plan.steps)
    assert "is cut when it leaves" in str(f.explain())


@pytest.mark.parametrize(
    "options",
    [
        {"outputs": "numpy"},
        {"donate": "all"},
        {"jit": True},
        {"jit": False},
        {"host_ops": "callback"},
        {"host_ops": "error"},
        {"checks": "ignore"},
        {"dynamic": True},
        {"dynamic": False},
        {"device": "cpu"},
    ],
    ids=str,
)
def test_options(options: Any) -> None:
    f, python = functions("several", **options)
    for length, seed in CALLS[:4]:
        values = arguments(length, seed)
        compare(outcome(f, values), outcome(python, values))
    kind = np.ndarray if options.get("outputs") == "numpy" else jax.Array
    assert all(isinstance(value, kind) for value in f(*arguments(6, 0)))


def test_one_program_serves_all_lengths() -> None:
    f, python = functions("several")
    for seed in range(12):
        values = arguments(20, seed)
        compare(outcome(f, values), outcome(python, values))
    assert f.stats.compilations == [1]
    assert (f.stats.fallbacks, f.stats.host_steps, f.stats.direct) == (0, 0, 12)


def test_an_outer_product_is_not_computed_in_full() -> None:
    f = pytensor.function([X], X[:K, None] * X, mode="JAXSELECTIVE")
    assert f.explain().graph_break_count == 1


def test_nothing_is_a_view_of_an_argument() -> None:
    f, _ = functions("slice as it is", outputs="numpy")
    values = arguments(6, 4)
    found = f(*values)
    found[:] = 7
    assert (values[0] == 1).all()
    trusted, _ = functions("slice as it is")
    trusted.trust_input = True
    found = trusted(*values)
    values[0][:] = 7
    assert (np.asarray(found) == 1).all()


def test_arrays_stay_on_their_device() -> None:
    f, python = functions("slice")
    device = jax.devices()[0]
    values = arguments(6, 1)
    found = f(*(jax.device_put(value, device) for value in values))
    assert found.committed
    assert found.devices() == {device}
    compare([np.asarray(found)], outcome(python, values))


def test_updates() -> None:
    """A shared variable whose new value has a length that is computed."""
    state = pytensor.shared(np.arange(-3.0, 6.0), shape=(None,))
    f = pytensor.function([], state.sum(), updates={state: state[state > 0] - 1}, mode=JAXLinker())
    expected = np.arange(-3.0, 6.0)
    for _ in range(5):
        assert f() == expected.sum()
        expected = expected[expected > 0] - 1
        np.testing.assert_array_equal(state.get_value(), expected)
    assert not f.explain().breaks


def test_a_failed_call_changes_nothing() -> None:
    state, other = pytensor.shared(np.arange(6.0), shape=(None,)), pt.dvector("other")
    outputs = state[: (other > 0).sum()] * 2
    f = pytensor.function(
        [other, X], [X[X > 0], X + other], updates={state: outputs}, mode=JAXLinker()
    )
    f(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="could not be broadcast"):
        f(np.ones(2), np.ones(3))
    assert state.get_value().shape == (3,)


def test_a_mask_that_does_not_fit() -> None:
    mask = pt.vector("mask", dtype="bool")
    for outputs in (X[mask], X[mask] * 2):
        f, python = (
            pytensor.function([X, mask], outputs, mode=mode)
            for mode in (JAXLinker(), Mode("py", "fast_run"))
        )
        for length in (3, 2, 4, 3):
            values = np.arange(3.0), np.ones(length, bool)
            compare(outcome(f, values), outcome(python, values))


@pytest.mark.parametrize("name", ["slice", "mask", "rows and columns", "used inside"])
def test_a_jit_of_the_user_is_refused(name: str) -> None:
    f, python = functions(name)
    values = arguments(6, 1)
    compare([np.asarray(each) for each in f.jax_fn(*values)], outcome(python, values))
    with pytest.raises(NotJittableError, match=r"(?s)stands? in the way:\n  1\. .* at .*PJL11[12]"):
        jax.jit(f.jax_fn)(*values)
    with pytest.raises(NotJittableError, match=r"1 operation stands in the way|2 operations stand"):
        _ = f.static_argnums
    pure = jaxify([X, M, N], GRAPHS[name]())
    with pytest.raises(NotJittableError):
        jax.jit(pure)(*values)


@pytest.mark.parametrize("name", ["slice as it is", "mask", "several", "rows by a mask"])
def test_saved(name: str, tmp_path: Path) -> None:
    f, python = functions(name)
    values = arguments(6, 1)
    f(*values)
    save(f, tmp_path / "f")
    assert "host" not in str(inspect(tmp_path / "f"))
    for prefer in ("compiled", "graph"):
        g = load(tmp_path / "f", prefer=prefer)
        for seed in range(5):
            values = arguments(6, seed)
            compare(outcome(g, values), outcome(python, values))
    with pytest.raises(NotJittableError):
        jax.jit(load(tmp_path / "f", prefer="compiled").jax_fn)(*values)


def test_saved_for_all_lengths_and_loaded_without_pytensor(tmp_path: Path) -> None:
    f, python = functions("several", outputs="numpy")
    save(f, tmp_path / "f", graph=False)
    calls = [arguments(*call) for call in CALLS[:6]]
    (tmp_path / "calls").write_bytes(pickle.dumps(calls))
    program = (
        "import pickle, sys\n"
        "from pathlib import Path\n"
        "sys.modules['pytensor'] = None\n"
        "from pytensor_jaxlink import load\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "f = load(folder / 'f')\n"
        "found = [f(*values) for values in pickle.loads((folder / 'calls').read_bytes())]\n"
        "(folder / 'found').write_bytes(pickle.dumps(found))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
    found = pickle.loads((tmp_path / "found").read_bytes())
    for values, each in zip(calls, found, strict=True):
        compare(each, outcome(python, values))


def test_compiled_before_it_is_called() -> None:
    for kinds in (False, True):
        f, python = functions("several")
        values = arguments(6, 1)
        examples = (
            [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in values[:2]] if kinds else values[:2]
        )
        f.compile(*examples, 2)
        assert f.stats.compilations == [1]
        compare(outcome(f, values), outcome(python, values))
        assert f.stats.compilations == [1]
        assert f.stats.direct == 1
    f, _ = functions("several")
    f.warmup([arguments(6, 1), arguments(5, 1)], progress=lambda done: None)
    assert f.stats.compilations == f.stats.padded.compilations == [1]


def test_copies_and_profiles() -> None:
    f, python = functions("slice")
    for g in (f.copy(), pickle.loads(pickle.dumps(f))):
        compare(outcome(g, arguments(6, 1)), outcome(python, arguments(6, 1)))
    with profile(f) as found:
        f(*arguments(6, 1))
    assert any(row.name.startswith("cut (2 * x)[:sum(") for row in found.rows)


def test_it_can_be_turned_off() -> None:
    mode = get_mode("JAXSELECTIVE").excluding("jaxlink_masks")
    f = pytensor.function([X], X[X > 0] * 2, mode=mode)
    assert f.explain().graph_break_count == 1


@pytest.mark.parametrize("start", ["number", "entry"])
@pytest.mark.parametrize("part", [slice(None), slice(2, None), -1, slice(None, -1)], ids=str)
def test_the_steps_that_a_loop_has_made(start: str, part: Any) -> None:
    number = pt.dscalar("number")

    def step(state: Any) -> tuple[Any, Any]:
        state = state * 1.5 + 1
        return state, until(state[0] > 4)

    first = pt.stack([number if start == "number" else X[0], 1.0])
    trace = scan(step, outputs_info=[first], n_steps=6, return_updates=False)
    outputs = [trace[part], trace[:, 0], pt.exp(number)]
    f, python = (
        pytensor.function([number, X], outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(), Mode("py", "fast_run"))
    )
    for value in (0.0, 3.0, -7.0, 1.0, np.nan, np.inf, 0.1):
        compare(f(value, [value]), python(value, [value]))
    if part != slice(None, -1):
        assert len(f.explain().breaks) == 0
        assert f.stats.compilations == [1]


def test_a_loop_over_a_number_that_a_size_needs() -> None:
    number = pt.dscalar("number")
    trace = scan(
        lambda t: (t * 1.5 + 1, until(t > 4)),
        outputs_info=[number],
        n_steps=6,
        return_updates=False,
    )
    pure = jaxify([number], trace.sum())
    assert jax.jit(pure, static_argnums=0)(1.0) == 15.375
    f = pytensor.function([number], pt.exp(pt.arange(trace.shape[0])), mode=JAXLinker())
    assert [len(f(value)) for value in (1.0, 3.0, 5.0)] == [3, 2, 1]
    assert len(f.explain().breaks) == 0
