"""XLA's code of functions that are built is kept too, whichever way a call takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax import monitoring

from pytensor_jaxlink import JAXLinker, load, save

X, N = pt.dvector("x"), pt.lscalar("n")
FOUND: list[str] = []


@monitoring.register_event_listener
def _note(event: str, **_: Any) -> None:
    FOUND.append(event.rpartition("/")[2])


def hits(function: Any, *arguments: Any, call: str = "__call__") -> int:
    FOUND.clear()
    getattr(function, call)(*arguments)
    assert function.vm.compiled.policy.windows.open == {}
    assert jax.config.jax_compilation_cache_dir is None
    return FOUND.count("cache_hits")


def one_region() -> Any:
    return [X], pt.exp(X).sum(), {}, [np.arange(3.0)], 1


def several_outputs() -> Any:
    return [X], [pt.exp(X), X + 1], {}, [np.arange(3.0)], 1


def a_condition() -> Any:
    return [X], pt.specify_shape(X, (None,))[pt.argmax(X)], {}, [np.arange(3.0)], 1


def sizes() -> Any:
    return [N, X], (pt.arange(N) * X).sum(), {}, [3, np.arange(3.0)], 1


def several_regions() -> Any:
    # The length of the slice is computed by the first region.
    taken = X[: pt.cast(pt.exp(X).max(), "int64")]
    return [X], pt.join(0, taken, pt.tanh(X)), {}, [np.arange(3.0)], 2


def generators() -> Any:
    rng = pytensor.shared(np.random.default_rng(3), name="rng")
    following, draw = pt.random.normal(X, rng=rng).owner.outputs
    return [X], draw, {rng: following}, [np.arange(3.0)], 1


KINDS = [one_region, several_outputs, a_condition, sizes, several_regions, generators]


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_calls(kind: Any, build: Any, folder: Path) -> None:
    inputs, outputs, updates, examples, count = kind()
    first = build(inputs, outputs, updates=updates)
    assert len(first.plan.regions) == count
    assert hits(first, *examples) == 0
    kept = len(list(folder.glob("xla-*")))
    assert kept == count
    second = build(inputs, outputs, updates=updates)
    assert hits(second, *examples) == count
    assert len(list(folder.glob("xla-*"))) == kept


def test_all_shapes_of_a_process(build: Any, folder: Path) -> None:
    inputs, outputs, *_ = one_region()
    first = build(inputs, outputs)
    assert [hits(first, np.ones(length)) for length in (2, 3, 2, 4)] == [0, 0, 0, 0]
    second = build(inputs, outputs)
    assert [hits(second, np.ones(length)) for length in (4, 4, 3, 2)] == [1, 0, 1, 1]


@pytest.mark.parametrize("length", [3, 1 << 17])
def test_states(build: Any, folder: Path, length: int) -> None:
    def function() -> Any:
        state = pytensor.shared(np.ones(length), name="state")
        return build([X], state[0], updates={state: state * X.sum()})

    first = function()
    assert [hits(first, np.ones(3)) for _ in range(3)] == [0, 0, 0]
    assert len(list(folder.glob("xla-*"))) == 1
    second = function()

    assert [hits(second, np.ones(3)) for _ in range(3)] == [1, 0, 0]
    assert float(second(np.ones(3))) == 27
    assert second.stats.donated_bytes == first.stats.donated_bytes // 3 * 4


def test_compiled_ahead(build: Any) -> None:
    inputs, outputs, *_ = one_region()
    example = jax.ShapeDtypeStruct((3,), "float64")
    assert hits(build(inputs, outputs), example, call="compile") == 0
    assert hits(build(inputs, outputs), example, call="compile") == 1


def test_errors_leave_the_configuration(folder: Path) -> None:
    options = {"xla_no_such_option": True}
    for outputs in (pt.exp(X).sum(), several_regions()[1]):
        mode = JAXLinker(cache_dir=folder, compiler_options=options)
        f = pytensor.function([X], outputs, mode=mode)
        with pytest.raises(Exception, match="xla_no_such_option"):
            f(np.ones(3))
        assert f.vm.compiled.policy.windows.open == {}
        assert jax.config.jax_compilation_cache_dir is None
    assert not list(folder.glob("xla-*"))


def test_loaded_graphs(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "f"
    save(pytensor.function([X], [pt.exp(X).sum(), X + 1], mode="JAXSELECTIVE"), path)
    for count in (0, 1):
        f = load(path, prefer="graph", mode=JAXLinker(cache_dir=folder))
        assert hits(f, np.arange(3.0)) == count
