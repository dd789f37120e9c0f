"""A start-up cache gives JAX a compilation cache, where the user has given it none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax import monitoring
from jax.experimental.compilation_cache import compilation_cache

from pytensor_jaxlink import JAXLinker, load, save
from pytensor_jaxlink.runtime import whole
from tests.helpers import black_box

X, N = pt.dvector("x"), pt.lscalar("n")
FOUND: list[str] = []


@monitoring.register_event_listener
def _note(event: str, **_: Any) -> None:
    FOUND.append(event.rpartition("/")[2])


def counts(function: Any, *arguments: Any, call: str = "__call__") -> tuple[int, int]:
    """Programs that JAX found, and those that it had to compile."""
    FOUND.clear()
    getattr(function, call)(*arguments)
    return FOUND.count("cache_hits"), FOUND.count("cache_misses")


def one_region() -> Any:
    return [X], pt.exp(X).sum(), {}, [np.arange(3.0)], 1


def a_condition() -> Any:
    return [X], [X + 1, pt.specify_shape(X, (None,))[pt.argmax(X)]], {}, [np.arange(3.0)], 1


def sizes() -> Any:
    return [N, X], (pt.arange(N) * X).sum(), {}, [3, np.arange(3.0)], 1


def several_regions() -> Any:
    # The length of the slice is computed by the first region.
    taken = X[: pt.cast(pt.exp(X).max(), "int64")]
    return [X], taken[:, None] * pt.tanh(X), {}, [np.arange(3.0)], 2


def generators() -> Any:
    rng = pytensor.shared(np.random.default_rng(3), name="rng")
    following, draw = pt.random.normal(X, rng=rng).owner.outputs
    return [X], draw, {rng: following}, [np.arange(3.0)], 1


@pytest.mark.parametrize("kind", [one_region, a_condition, sizes, several_regions, generators])
def test_kinds_of_calls(kind: Any, build: Any, folder: Path) -> None:
    inputs, outputs, updates, examples, count = kind()
    first = build(inputs, outputs, updates=updates)
    assert len(first.plan.regions) == count
    assert counts(first, *examples)[1] >= count  # with what JAX compiles for itself
    assert jax.config.jax_compilation_cache_dir == str(folder / "xla")
    files = sorted(folder.rglob("*"))
    second = build(inputs, outputs, updates=updates)
    assert counts(second, *examples) == (count, 0)
    # JAX notes when each program was last read; all else is as it was.
    assert sorted(folder.rglob("*")) == files


@pytest.mark.parametrize("length", [3, 1 << 17])
def test_states(build: Any, length: int) -> None:
    def function() -> Any:
        state = pytensor.shared(np.ones(length), name="state")
        return build([X], state[0], updates={state: state * X.sum()})

    first = function()
    assert [counts(first, np.ones(3))[1] for _ in range(3)] == [1, 0, 0]
    second = function()
    assert [counts(second, np.ones(3)) for _ in range(3)] == [(1, 0), (0, 0), (0, 0)]
    assert float(second(np.ones(3))) == 27
    assert second.stats.donated_bytes == first.stats.donated_bytes // 3 * 4


def test_compiled_ahead(build: Any) -> None:
    inputs, outputs, *_ = one_region()
    example = jax.ShapeDtypeStruct((3,), "float64")
    assert counts(build(inputs, outputs), example, call="compile") == (0, 1)
    assert counts(build(inputs, outputs), example, call="compile") == (1, 0)


def test_functions_that_are_not_kept(build: Any) -> None:
    outputs = black_box(lambda values: values)(pt.exp(X)) * 2
    for expected in ((0, 2), (2, 0)):
        whole._kept.clear()  # as in another process
        f = build([X], outputs)
        assert f.stats.start_up_cache.startswith("not kept")
        assert counts(f, np.ones(3)) == expected


def test_the_users_choice_comes_first(build: Any, folder: Path, tmp_path: Path) -> None:
    inputs, outputs, *_ = one_region()
    jax.config.update("jax_enable_compilation_cache", False)
    build(inputs, outputs)(np.ones(3))
    assert jax.config.jax_compilation_cache_dir is None
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
    build(inputs, outputs)(np.ones(4))
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "jax")
    build(inputs, outputs, options={"compilation_cache": tmp_path / "own"})(np.ones(5))
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    assert not (folder / "xla").exists()
    assert list((tmp_path / "own").glob("*-cache"))


def test_the_first_folder_stays(build: Any, folder: Path, tmp_path: Path) -> None:
    inputs, outputs, *_ = one_region()
    build(inputs, outputs)
    other = pytensor.function(inputs, outputs, mode=JAXLinker(cache_dir=tmp_path / "other"))
    other(np.ones(3))
    assert jax.config.jax_compilation_cache_dir == str(folder / "xla")
    assert not (tmp_path / "other" / "xla").exists()


def test_errors_of_xla(folder: Path) -> None:
    for outputs in (pt.exp(X).sum(), several_regions()[1]):
        mode = JAXLinker(cache_dir=folder, compiler_options={"xla_no_such_option": True})
        f = pytensor.function([X], outputs, mode=mode)
        with pytest.raises(Exception, match="xla_no_such_option"):
            f(np.ones(3))


def test_loaded_functions(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "f"
    save(pytensor.function([X], [pt.exp(X).sum(), X + 1], mode="JAXSELECTIVE"), path)
    for expected in ((0, 1), (1, 0)):
        f = load(path, prefer="graph", mode=JAXLinker(cache_dir=folder))
        assert counts(f, np.arange(3.0)) == expected
    own = tmp_path / "own"
    for expected in ((0, 1), (1, 0)):
        assert counts(load(path, compilation_cache=own), np.arange(3.0)) == expected
    assert jax.config.jax_compilation_cache_dir == str(own)
    with pytest.raises(ValueError, match="compilation_cache=True is not the name of a folder"):
        load(path, compilation_cache=True)  # pyright: ignore[reportArgumentType]
