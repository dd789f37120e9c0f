"""XLA's code is kept between processes, and JAX's configuration is as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from jax import monitoring
from jax.experimental.compilation_cache import compilation_cache
from pytensor.compile.io import In
from pytensor.sparse import csr_matrix, structured_dot

from pytensor_jaxlink import JAXLinker, load, save
from pytensor_jaxlink.artifact import machine_code
from pytensor_jaxlink.artifact.folder import Folder
from pytensor_jaxlink.artifact.machine_code import PLACE, MachineCode, user_folder
from tests.helpers import as_list, black_box, sort_down

ROOT = Path(__file__).resolve().parents[2]
CONFIGURED = [name for name in jax.config.values if "cache" in name]
FOUND: list[str] = []
X = pt.dvector("x")


@monitoring.register_event_listener
def _note(event: str, **_: Any) -> None:
    FOUND.append(event.rpartition("/")[2])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder; JAX's configuration must be the same afterwards."""
    monkeypatch.setenv(PLACE, str(tmp_path / "kept"))
    before = configuration()
    yield tmp_path / "kept"
    assert configuration() == before


def configuration() -> dict[str, Any]:
    return {name: getattr(jax.config, name) for name in CONFIGURED}


def saved(path: Path, inputs: Any, outputs: Any, examples: Any = (), **options: Any) -> Path:
    """A function, which is called before it is saved if there are examples."""
    updates = options.pop("updates", None)
    f = pytensor.function(inputs, outputs, updates=updates, mode=JAXLinker(**options))
    if examples:
        f(*examples)
    save(f, path / "f")
    return path / "f"


def plain(path: Path, examples: Any = ()) -> Path:
    return saved(path, [X], [pt.exp(X).sum(), pt.tanh(X)], examples)


def hits_of_call(path: Path, *arguments: Any, **options: Any) -> int:
    f = load(path, **options)
    FOUND.clear()
    f(*arguments)
    return FOUND.count("cache_hits")


def test_second_load_finds_it(folder: Path, tmp_path: Path) -> None:
    path = plain(tmp_path)
    assert not folder.exists() or not list(folder.iterdir())
    assert [hits_of_call(path, np.ones(3)) for _ in range(2)] == [0, 1]
    assert len(list(folder.iterdir())) == 1
    assert hits_of_call(path, np.ones(4)) == 0
    assert len(list(folder.iterdir())) == 2
    assert folder.stat().st_mode & 0o777 == 0o700


def test_saving_compiles_for_what_was_called(folder: Path, tmp_path: Path) -> None:
    path = plain(tmp_path, [np.ones(3)])
    assert hits_of_call(path, np.ones(3)) == 1
    assert hits_of_call(path, np.ones(3), compilation_cache=False) == 0
    assert hits_of_call(path, np.ones(3), compilation_cache=None) == 0


def several_regions() -> Any:
    return [X], pt.exp(black_box(sort_down)(pt.tanh(X))).sum(), [np.arange(3.0)], 2


def sizes() -> Any:
    n = pt.lscalar("n")
    return [n, X], (pt.arange(n) * X).sum(), [3, np.arange(3.0)], 1


def driven_from_the_host() -> Any:
    states = pytensor.scan(
        lambda state: pt.exp(black_box(sort_down)(pt.sin(state))),
        outputs_info=[X],
        n_steps=2,
        return_updates=False,
    )
    return [X], states, [np.arange(3.0)], None


def sparse() -> Any:
    from scipy.sparse import csr_matrix as matrix

    a, b = csr_matrix("a", dtype="float64"), pt.dmatrix("b")
    return [a, b], structured_dot(a, b), [matrix(np.eye(3)), np.ones((3, 2))], 1


@pytest.mark.parametrize("kind", [several_regions, sizes, driven_from_the_host, sparse])
def test_kinds_of_plans(kind: Any, folder: Path, tmp_path: Path) -> None:
    inputs, outputs, examples, count = kind()
    path = saved(tmp_path, inputs, outputs, examples)
    before = sorted(folder.iterdir())
    assert len(before) >= (count or 1)
    hits = hits_of_call(path, *examples, allow=("tests",))
    assert hits == count or (count is None and hits >= 1)
    assert sorted(folder.iterdir()) == before


def test_generators_and_states(folder: Path, tmp_path: Path) -> None:
    rng = pytensor.shared(np.random.default_rng(1))
    total = pytensor.shared(np.zeros(3))
    following, draw = pt.random.normal(size=(3,), rng=rng).owner.outputs
    updates = {rng: following, total: total + draw}
    path = saved(tmp_path, [X], draw + X, [np.ones(3)], updates=updates)
    f = load(path)
    FOUND.clear()
    for _ in range(3):
        f(np.ones(3))
    assert (FOUND.count("cache_hits"), FOUND.count("cache_misses")) == (1, 0)


def test_donation(folder: Path, tmp_path: Path) -> None:
    state = pytensor.shared(np.ones(200_000))
    factor = pt.dscalar("factor")
    path = saved(tmp_path, [factor], state.sum(), [0.5], updates={state: state * factor})
    f = load(path)
    FOUND.clear()
    f(0.5)
    assert FOUND.count("cache_hits") == 1
    f(0.5)
    assert f.stats.donated_bytes == 3_200_000
    assert (FOUND.count("cache_hits"), FOUND.count("cache_misses")) == (1, 0)


def test_a_call_goes_through_jax_at_once(folder: Path, tmp_path: Path) -> None:
    """JAX's fast path is there: no more lines of Python are run than without the cache."""
    path, counts = plain(tmp_path), []
    for kept in (False, True):
        f = load(path, compilation_cache=kept)
        for _ in range(2):
            f(np.ones(3))
        calls: list[str] = []
        sys.setprofile(lambda frame, event, _, calls=calls: calls.append(event))
        try:
            f(np.ones(3))
        finally:
            sys.setprofile(None)
        counts.append(len(calls))
    assert counts[0] == counts[1]


def test_damage(folder: Path, tmp_path: Path) -> None:
    path = plain(tmp_path, [np.ones(3)])
    [entry] = folder.iterdir()
    whole = entry.read_bytes()
    for damaged in (b"", whole[:-100], whole[:500] + b"x" + whole[501:], whole[::-1]):
        entry.write_bytes(damaged)
        assert hits_of_call(path, np.ones(3)) == 0  # a warning would be an error
        assert hits_of_call(path, np.ones(3)) == 1


def test_jax_own_cache_is_used(folder: Path, tmp_path: Path) -> None:
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
        compilation_cache.reset_cache()
        path = plain(tmp_path, [np.ones(3)])
        load(path)(np.ones(3))
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()
    assert not list(folder.iterdir())


def test_no_cache_where_jax_is_told_to_have_none(folder: Path, tmp_path: Path) -> None:
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        load(plain(tmp_path, [np.ones(3)]))(np.ones(3))
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        compilation_cache.reset_cache()
    assert not list(folder.iterdir())


def test_errors_leave_the_configuration(folder: Path, tmp_path: Path) -> None:
    f = load(plain(tmp_path), compiler_options={"xla_no_such_option": True})
    with pytest.raises(Exception, match="xla_no_such_option"):
        f(np.ones(3))
    assert jax.config.jax_compilation_cache_dir is None
    assert f._executor.policy.windows.open == {}


def test_what_the_user_traces(folder: Path, tmp_path: Path) -> None:
    path = plain(tmp_path)
    f = load(path)
    np.testing.assert_allclose(jax.jit(f.jax_fn)(np.ones(3))[0], 3 * np.e)
    assert not folder.exists() or not list(folder.iterdir())


def test_threads(folder: Path, tmp_path: Path) -> None:
    f = load(plain(tmp_path))
    found: dict[int, Any] = {}
    start = threading.Barrier(8)

    def call(length: int) -> None:
        start.wait()
        found[length] = [float(f(np.ones(1 + length % 4))[0]) for _ in range(20)]

    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for length in range(8):
        np.testing.assert_allclose(found[length], (1 + length % 4) * np.e)
    assert len(list(folder.iterdir())) == 4  # what each has compiled, also while others did


def test_many_functions_in_many_threads(folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / str(k) for k in range(4)]
    for factor, path in enumerate(paths, start=1):
        save(pytensor.function([X], pt.exp(X).sum() * factor, mode="JAXSELECTIVE"), path)
    functions = [load(path) for path in paths]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda f: float(f(np.zeros(3))), functions))
    assert found == [3, 6, 9, 12]
    assert len(list(folder.iterdir())) == 4


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    code = MachineCode(Folder(tmp_path, 60_000), "ab" * 32)

    def named(x: Any) -> Any:
        return x + 1

    named.__name__ = code.name
    for length in range(2, 12):
        with code.window(str(length)):
            jax.jit(named)(np.ones(length))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 60_000
    assert list(tmp_path.iterdir())


def test_the_users_folder_may_hold_other_things(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable may name a folder with data: it has no part in the bound."""
    monkeypatch.setattr(machine_code, "_LIMIT", 30_000)
    folder.mkdir(mode=0o700)
    data = folder / "results.npz"
    data.write_bytes(bytes(100_000))
    os.utime(data, (0, 0))
    f = load(plain(tmp_path))
    for length in range(1, 8):
        f(np.ones(length))
    assert data.stat().st_size == 100_000
    assert 1 <= len(list(folder.glob("xla-*"))) < 7


def test_only_a_folder_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE, "")
    assert user_folder() is None
    monkeypatch.setenv(PLACE, str(tmp_path / "a"))
    assert user_folder() == tmp_path / "a"
    (tmp_path / "a").chmod(0o770)
    assert user_folder() is None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(PLACE, str(tmp_path / "file"))
    assert user_folder() is None
    monkeypatch.delenv(PLACE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert user_folder() == tmp_path / "xdg" / "pytensor_jaxlink"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_folder() == tmp_path / "home" / ".cache" / "pytensor_jaxlink"
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    assert user_folder() is None


def test_a_folder_that_cannot_be_used_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_text("")
    monkeypatch.setenv(PLACE, str(tmp_path / "kept"))
    assert hits_of_call(plain(tmp_path, [np.ones(3)]), np.ones(3)) == 0


PROCESS = """
import json, sys, warnings
warnings.simplefilter("error")
import jax, numpy as np
from jax import monitoring
found = []
monitoring.register_event_listener(lambda event, **_: found.append(event.rpartition("/")[2]))
monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: found.append(event.rpartition("/")[2])
)
from pytensor_jaxlink import load
f = load(sys.argv[1])
compiled = found.count("backend_compile_duration")
found.clear()
value = float(f(np.ones(3))[0])
print(json.dumps([value, found.count("cache_hits"), "pytensor" in sys.modules,
                  compiled, jax.config.jax_compilation_cache_dir]))
"""


def test_first_fresh_process(folder: Path, tmp_path: Path) -> None:
    path = plain(tmp_path, [np.ones(3)])
    command = [sys.executable, "-c", PROCESS, str(path)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)
    ]
    for process in both:
        out, _ = process.communicate()
        value, hits, pytensor_is_there, compiled, configured = json.loads(out)
        assert (hits, pytensor_is_there, configured) == (1, False, None)
        assert compiled == 0  # importing what loading needs costs little more than importing JAX
        assert value == pytest.approx(3 * np.e)


def test_saving_does_not_fail_because_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(MachineCode, "window", broken)
    path = plain(tmp_path, [np.ones(3)])
    assert as_list(load(path, compilation_cache=False)(np.ones(3)))[0] == pytest.approx(3 * np.e)


def test_mutable_inputs(folder: Path, tmp_path: Path) -> None:
    f = pytensor.function([In(X, mutable=True)], X * 2, mode="JAXSELECTIVE")
    f(np.ones(3))
    save(f, tmp_path / "f")
    assert hits_of_call(tmp_path / "f", np.ones(3)) == 1
    np.testing.assert_array_equal(load(tmp_path / "f")(jax.numpy.ones(3)), [2, 2, 2])
