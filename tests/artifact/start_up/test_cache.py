"""A function out of the start-up cache is the function that is built without it."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.io import In
from pytensor.link.jax.dispatch import jax_funcify

from pytensor_jaxlink import JAXFunction, JAXLinker, RecompileLimitError, inspect, load, save
from pytensor_jaxlink.compat import ifelse
from tests.corpus.graphs import CORPUS, INPUTS, values
from tests.helpers import as_list, black_box, sort_down
from tests.lowering.test_failures import Doubled, RepeatSome


def status(f: Any) -> str:
    return f.stats.start_up_cache


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(CORPUS)[::3])  # all of it takes half a minute
def test_corpus(name: str, build: Any) -> None:
    _, graph = CORPUS[name]
    outputs = graph()
    f = pytensor.function(INPUTS, outputs, mode="JAXSELECTIVE", on_unused_input="ignore")
    expected = as_list(f(*values(1)))
    made = build(INPUTS, outputs, on_unused_input="ignore")
    for_first = as_list(made(*values(1)))
    found = build(INPUTS, outputs, on_unused_input="ignore")
    again = as_list(found(*values(1)))
    host = any(cut.value is None for cut in f.explain().breaks)
    assert status(made) == "miss" or (host and "runs on the host" in status(made))
    assert status(found) == ("hit" if status(made) == "miss" else status(made))
    for one, two, three in zip(expected, for_first, again, strict=True):
        assert type(one) is type(two) is type(three)
        assert one.dtype == two.dtype == three.dtype
        assert np.asarray(two).tobytes() == np.asarray(three).tobytes()
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-14)
    # PyTensor does not always rewrite a graph to the same order of nodes.
    assert [sorted(region.operations) for region in found.plan.regions] == [
        sorted(region.operations) for region in f.plan.regions
    ]
    assert found.explain().breaks == f.explain().breaks
    assert found.stats.compilations == f.stats.compilations


def test_nothing_is_rewritten_or_traced(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytensor.compile.maker import FunctionMaker

    from pytensor_jaxlink.link.compiler import CompiledGraph

    x = pt.dvector("x")
    assert build([x], pt.exp(x).sum())(np.ones(3)) == pytest.approx(3 * np.e)

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("it was not in the cache")

    monkeypatch.setattr(FunctionMaker, "prepare_fgraph", forbidden)
    monkeypatch.setattr(CompiledGraph, "__init__", forbidden)
    f = build([x], pt.exp(x).sum())
    assert status(f) == "hit"
    assert f(np.ones(3)) == pytest.approx(3 * np.e)


def test_other_shapes_are_added(build: Any, folder: Path) -> None:
    x = pt.dvector("x")
    for length in (3, 4):
        f = build([x], pt.exp(x).sum())
        assert f(np.ones(length)) == pytest.approx(length * np.e)
    assert status(f) == "hit"
    [path] = folder.glob("*.jaxlink")
    found = str(inspect(path))  # the file is as those of saved functions
    assert "region 0: (3,); (4,)" in found
    assert "arrays/" not in found


def test_code_that_others_have_added(build: Any, folder: Path) -> None:
    x = pt.dvector("x")
    functions = [build([x], pt.exp(x).sum()) for _ in range(3)]
    for function, length in zip(functions, (3, 4, 5), strict=True):
        assert function(np.ones(length)) == pytest.approx(length * np.e)
    [path] = folder.glob("*.jaxlink")
    assert "region 0: (3,); (4,); (5,)" in str(inspect(path))
    before = path.read_bytes()
    for length in (3, 4, 5):
        assert functions[0](np.ones(length)) == pytest.approx(length * np.e)
    assert path.read_bytes() == before


def test_regions_of_branches(build: Any, folder: Path) -> None:
    x = pt.dvector("x")
    repeated = pt.repeat(x * 2, pt.cast(pt.exp(x).sum(), "int64")).cumsum()
    outputs = ifelse(x.sum() > 0, repeated, pt.exp(x))
    plain = pytensor.function([x], outputs, mode="JAXSELECTIVE")
    for expected in ("miss", "hit"):
        f = build([x], outputs)
        assert status(f) == expected
        for given in (np.arange(2.0), -np.arange(3.0)):
            np.testing.assert_array_equal(f(given), plain(given))
    [path] = folder.glob("*.jaxlink")
    found = str(inspect(path))
    assert "region 0: (2,); (3,)\n  region 1: (2,)\n  region 2: " in found


def test_the_values_of_constants_are_not_written(build: Any, folder: Path) -> None:
    x, large = pt.dvector("x"), np.arange(10_000.0)
    for expected in ("miss", "hit"):
        f = build([x], (x * large).sum())
        assert status(f) == expected
        assert f(np.ones(10_000)) == large.sum()
    [path] = folder.glob("*.jaxlink")
    assert path.stat().st_size < large.nbytes


def test_a_folder_with_data_keeps_it(build: Any, folder: Path) -> None:
    folder.mkdir()
    data = [folder / name for name in ("results.npz", "f.jaxlink", "plan.jaxlink")]
    for path in data:
        path.write_bytes(bytes(5000))
    x = pt.dvector("x")
    limit = 20_000  # about two functions
    for power in range(1, 7):
        f = build([x], (x**power).sum(), options={"cache_limit": limit})
        assert f(np.ones(3)) == 3
    assert all(path.read_bytes() == bytes(5000) for path in data)
    ours = [path for path in folder.iterdir() if path.is_file() and path not in data]
    for kept in ours, list((folder / "xla").glob("*-cache")):
        assert 0 < sum(path.stat().st_size for path in kept) <= limit


def test_state_is_the_users_own(build: Any) -> None:
    x = pt.dvector("x")
    for expected in ("miss", "hit"):
        total = pytensor.shared(np.zeros(3), name="total")
        seen = total.clone()
        seen.name = "seen"
        f = build([x], total.sum(), updates={total: total + x}, givens={})
        assert status(f) == expected
        f(np.ones(3))
        np.testing.assert_array_equal(total.get_value(), [1, 1, 1])
        total.set_value(np.full(3, 5.0))
        assert f(x=np.ones(3)) == 15
        np.testing.assert_array_equal(total.get_value(), [6, 6, 6])


def test_defaults_givens_and_conversions(build: Any) -> None:
    x, y, z = pt.dvector("x"), pt.dscalar("y"), pt.dvector("z")
    for _ in range(2):
        default = pytensor.link.basic.Container(y, [np.array(2.0)])
        f = build([x, In(y, value=default, implicit=False)], [z * y, x], givens={z: x + 1})
        np.testing.assert_array_equal(f([1, 2])[0], [4, 6])
        np.testing.assert_array_equal(f(y=3, x=[1, 2])[0], [6, 9])
        with pytest.raises(TypeError):
            f(np.ones((2, 2)))
        with pytest.raises(TypeError):
            f()
    assert status(f) == "hit"


def test_generators_stay_the_users(build: Any) -> None:
    drawn = []
    for _ in range(2):
        rng = pytensor.shared(np.random.default_rng(3), name="rng")
        following, draw = pt.random.normal(size=(3,), rng=rng).owner.outputs
        f = build([], draw, updates={rng: following})
        drawn.append([np.asarray(f()).tobytes() for _ in range(2)])
        assert isinstance(rng.get_value(), np.random.Generator)
    assert status(f) == "hit"
    assert drawn[0] == drawn[1]


def test_errors_are_those_of_pytensor(build: Any) -> None:
    x, i = pt.dvector("x"), pt.lscalar("i")
    y = pt.dvector("y")
    outputs = [x[i], pt.specify_shape(x, (3,)).sum(), x + y]
    plain = pytensor.function([x, y, i], outputs, mode="JAXSELECTIVE")
    build([x, y, i], outputs)(np.ones(3), np.ones(3), 1)
    for arguments in (
        (np.ones(3), np.ones(3), 7),
        (np.ones(2), np.ones(2), 1),
        (np.ones(3), np.ones(4), 1),
    ):
        f = build([x, y, i], outputs)
        assert status(f) == "hit"
        with pytest.raises(Exception) as expected:  # noqa: PT011 -- whatever PyTensor raises
            plain(*arguments)
        with pytest.raises(type(expected.value)) as found:
            f(*arguments)
        assert str(found.value) == str(expected.value)
        assert f(np.arange(3.0), np.ones(3), 2)[0] == 2


def test_a_recorded_failure_is_kept(build: Any) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    for _ in range(2):
        f = build([x, n], RepeatSome()(x * 2, n) + 1)
        for count in (2, 3, 3):
            np.testing.assert_allclose(f(np.ones(3), count), np.full(3 * count, 3.0))
        assert f.explain().static_inputs == ("n",)
        assert (f.stats.fallbacks, f.stats.calls) == (1, 3)
    assert status(f) == "hit"


def test_graphs_that_come_out_in_another_order(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytensor_jaxlink.artifact.start_up import kept

    x = pt.dvector("x")
    build([x], pt.exp(x).sum())(np.ones(3))
    f = build([x], pt.exp(x).sum())
    assert f(np.ones(3)) == pytest.approx(3 * np.e)
    monkeypatch.setattr(kept, "structure_of", lambda lowered: "another")
    for length in (4, 3):
        assert f(np.ones(length)) == pytest.approx(length * np.e)
    assert (f.stats.fallbacks, f.stats.calls) == (0, 3)


def test_copies_and_pickles(build: Any) -> None:
    x, w, v = pt.dvector("x"), pytensor.shared(2.0, name="w"), pytensor.shared(5.0, name="v")
    build([x], (x * w).sum(), updates={w: w + 1})
    for make in (
        lambda f: f.copy(),
        lambda f: f.copy(swap={w: v}),
        lambda f: f.copy(delete_updates=True),
        lambda f: f.copy(share_memory=True),
        copy.copy,
        copy.deepcopy,
        lambda f: pickle.loads(pickle.dumps(f)),
    ):
        plain = make(pytensor.function([x], (x * w).sum(), updates={w: w + 1}, mode="JAXSELECTIVE"))
        before = w.get_value(), v.get_value()
        expected = [float(plain(np.ones(2))), float(plain(np.ones(2)))]
        w.set_value(before[0])
        v.set_value(before[1])
        found = build([x], (x * w).sum(), updates={w: w + 1})
        assert status(found) == "hit"
        g = make(found)
        assert isinstance(g, JAXFunction)
        assert [float(g(np.ones(2))), float(g(np.ones(2)))] == expected
        assert str(g.explain()) == str(plain.explain())


def test_what_the_compiler_knows_is_there(build: Any, tmp_path: Path) -> None:
    x, n = pt.dvector("x"), pt.lscalar("n")
    outputs = x.reshape((n, -1)).sum(axis=0)
    plain = pytensor.function([x, n], outputs, mode="JAXSELECTIVE")
    build([x, n], outputs)
    f = build([x, n], outputs)
    assert f.static_argnums == plain.static_argnums == (1,)
    assert f.input_names == plain.input_names
    assert f.output_names == plain.output_names
    assert f.donate_argnums == plain.donate_argnums
    assert str(f.maker.fgraph) == str(plain.maker.fgraph)
    [sums] = jax.jit(f.jax_fn, static_argnums=f.static_argnums)(np.arange(6.0), 3)
    np.testing.assert_array_equal(sums, f(np.arange(6.0), 3))
    save(f, tmp_path / "f")
    np.testing.assert_array_equal(load(tmp_path / "f")(np.arange(6.0), 3), sums)
    assert f.compile(np.ones(4), 2).stats.compilations == [2]


def test_inputs_are_overwritten(build: Any) -> None:
    x = pt.dvector("x")
    new = pt.set_subtensor(x[0], 7.0)
    for _ in range(2):
        f = build([In(x, mutable=True)], new.sum(), accept_inplace=True)
        given = np.ones(3)
        assert f(given) == 9
    assert status(f) == "hit"


def test_donated_states(build: Any) -> None:
    x = pt.dscalar("x")
    for _ in range(2):
        state = pytensor.shared(np.ones(1 << 18), name="state")
        f = build([x], [], updates={state: state * x})
        for _ in range(3):
            f(2.0)
        assert f.stats.donated_bytes == 3 * 8 << 18  # what was NumPy's is moved first
        assert float(state.get_value()[0]) == 8
    assert status(f) == "hit"


class CallsBack(Doubled):
    """Its JAX rule leaves XLA."""


@jax_funcify.register(CallsBack)
def _calls_back(op: CallsBack, **_: Any) -> Any:
    def rule(array: Any) -> Any:
        return jax.pure_callback(lambda values: values * 2, array, array)

    return rule


def test_what_leaves_xla_is_not_kept(build: Any) -> None:
    x = pt.dvector("x")
    for _ in range(2):
        f = build([x], CallsBack()(x) + 1)
        np.testing.assert_array_equal(f(np.ones(3)), [3, 3, 3])
        assert status(f).startswith("not kept: region 0 cannot be exported: ")
        assert status(f).endswith(" [PJL714]")


def test_what_is_not_kept_says_why(build: Any) -> None:
    x = pt.dvector("x")

    def local(values: np.ndarray) -> np.ndarray:
        return values

    for outputs, options, why in (
        (black_box(sort_down)(x), {}, r"not kept: .* runs on the host \[PJL721\]$"),
        (black_box(local)(x), {}, r"not kept: .*cannot be imported as.* \[PJL702\]$"),
        (x + 1, {"jit": False}, r"not kept: jit=False compiles nothing \[PJL723\]$"),
    ):
        for _ in range(2):
            f = build([x], outputs, options=options)
            f(np.ones(3))
            assert re.search(why, status(f)), status(f)
    assert status(pytensor.function([x], x, mode="JAXSELECTIVE")) == "off"


def test_a_folder_that_cannot_be_written(build: Any, folder: Path) -> None:
    folder.write_text("a file is in its place")
    x = pt.dvector("x")
    f = build([x], x + 1)
    assert f.stats.start_up_cache.startswith("not kept: [Errno")
    assert f.stats.start_up_cache.endswith(" [PJL724]")
    np.testing.assert_array_equal(f(np.ones(2)), [2, 2])


def test_functions_whose_files_are_damaged(build: Any, folder: Path) -> None:
    x = pt.dvector("x")
    for expected in ("miss", "miss", "hit"):
        f = build([x], pt.exp(x).sum())
        assert f.stats.start_up_cache == expected
        assert f(np.ones(3)) == pytest.approx(3 * np.e)
        [path] = folder.glob("*.jaxlink")
        if len(list(folder.glob("*.damaged"))) == 0:
            path.write_bytes(path.read_bytes()[:-40])
            (folder / "once.damaged").write_text("")
    path.write_bytes(path.read_bytes()[:-40])
    assert f(np.ones(4)) == pytest.approx(4 * np.e)
    assert "region 0: (3,); (4,)" in str(inspect(path))  # who has the code writes it again


def test_options() -> None:
    with pytest.raises(ValueError, match="cache_limit=0 is not a positive integer"):
        JAXLinker(cache_dir="somewhere", cache_limit=0)
    with pytest.raises(ValueError, match="cache_dir=3 is not the name of a folder"):
        JAXLinker(cache_dir=3)  # pyright: ignore[reportArgumentType]


def together() -> tuple[Any, Any, Any, Any]:
    """A size that stays static changes with the length of the state."""
    x, n, state = pt.dvector("x"), pt.lscalar("n"), pytensor.shared(np.zeros(2))
    updates = {state: pt.concatenate([state, x[:n]])}
    calls = [(np.ones(12), size) for size in (1, 2, 3, 4, 6, 1)]
    return [x, n], [x.reshape((n, -1)), state.sum()], updates, calls


def one_after_the_other() -> tuple[Any, Any, Any, Any]:
    """A size stays static, and then the length of an argument changes."""
    x, n, y = pt.dvector("x"), pt.lscalar("n"), pt.dvector("y")
    calls = [(np.ones(12), n, np.ones(k)) for n, k in ((1, 2), (2, 2), (3, 2), (1, 3), (1, 4))]
    return [x, n, y], [x.reshape((n, -1)), (y**2).sum()], {}, calls


@pytest.mark.parametrize("changes", [together, one_after_the_other])
def test_sizes_beyond_the_limit_are_as_without_the_cache(changes: Any, build: Any) -> None:
    """A size that becomes data there does so here, also after one that does not."""

    def outcome(f: Any, call: Any) -> object:
        try:
            return [np.asarray(value).tolist() for value in f(*call)]
        except RecompileLimitError:
            return RecompileLimitError

    options: Any = {"recompile_limit": 2, "on_recompile_limit": "error"}
    inputs, outputs, updates, calls = changes()
    f = pytensor.function(inputs, outputs, updates=updates, mode=JAXLinker(**options))
    expected = [outcome(f, call) for call in calls]
    for kept in ("miss", "hit"):
        inputs, outputs, updates, _ = changes()
        f = build(inputs, outputs, updates=updates, options=options)
        assert [outcome(f, call) for call in calls] == expected
        assert status(f) == kept
