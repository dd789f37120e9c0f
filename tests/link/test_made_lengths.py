"""Arrays that are made as long as an argument says: one program serves the lengths of a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pytensor_jaxlink import JAXLinker, load, save
from tests.link.test_cut_results import compare, outcome

X, N, K = pt.dvector("x"), pt.lscalar("n"), pt.iscalar("k")


def loop() -> Any:
    first = pt.zeros((), dtype="int64")
    steps = pt.arange(N)
    return pytensor.scan(
        lambda i, t: t * 2 + i, sequences=[steps], outputs_info=[first], return_updates=False
    )


GRAPHS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: pt.arange(N),
    "numbers from one on": lambda: pt.exp(pt.arange(1, N + 1) / 3.0),
    "zeros": lambda: pt.zeros(N),
    "rows": lambda: pt.zeros((N, 3)) + X[0],
    "unit matrix": lambda: pt.eye(N) * 2,
    "outer product": lambda: pt.outer(pt.arange(N), pt.arange(K) * 2.5),
    "repeated": lambda: pt.repeat(X[0], N),
    "joined": lambda: pt.concatenate([pt.exp(X), pt.ones(N)]),
    "powers": lambda: X[0] ** pt.arange(N),
    "loop": loop,
    "gradient": lambda: [pt.arange(N) * X[0], pytensor.grad((pt.arange(N) * X[0]).sum(), X)],
    "reshape": lambda: pt.arange(2 * N).reshape((N, 2)),
    "reshape and sum": lambda: pt.arange(2 * N).reshape((N, 2)).sum(0),
    "beside a slice": lambda: [X[:N] * 2, pt.arange(N) + 1, N * 2],
}
STATIC = {
    "draws": lambda: pt.random.normal(size=N, rng=pytensor.shared(np.random.default_rng(1))),
}


def functions(outputs: Any, /, **options: Any) -> list[Any]:
    return [
        pytensor.function([N, K, X], outputs, mode=mode, on_unused_input="ignore")
        for mode in (JAXLinker(**options), Mode("py", "fast_run"))
    ]


def arguments(n: int, length: int = 3) -> tuple[Any, ...]:
    return n, max(n - 1, 0) if n > 0 else n, np.linspace(0.5, 1.0, length)


@pytest.mark.parametrize("dynamic", [True, "auto"])
@pytest.mark.parametrize("name", GRAPHS)
def test_values(name: str, dynamic: Any) -> None:
    f, python = functions(GRAPHS[name](), dynamic=dynamic)
    for n in (3, 5, 1, 0, 64, 65, -1, -3, 3, 130, 7, 1024, 2):
        compare(outcome(f, arguments(n)), outcome(python, arguments(n)))
    compare(outcome(f, arguments(9, 5)), outcome(python, arguments(9, 5)))
    assert not f.explain().breaks
    assert "n has become data: one program serves all its values up to" in str(f.explain())
    assert f.stats.padded.compilations[0] <= 5


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int8", "int16"])
@pytest.mark.parametrize("dynamic", [True, "auto"])
def test_types_of_lengths(dtype: str, dynamic: Any) -> None:
    n = pt.scalar("n", dtype=dtype)
    length = pt.cast(n, "int64")  # PyTensor 3.0 takes no uint64 as a length
    outputs = [pt.alloc(X[0], length), pt.ones((length, 2)).sum(0) + X[0], n + 1]
    f, python = (
        pytensor.function([n, X], outputs, mode=mode)
        for mode in (JAXLinker(dynamic=dynamic), Mode("py", "fast_run"))
    )
    for number in (3, 5, 1, 0, 64, 65, 127):
        given = (np.array(number, dtype), np.array([0.5]))
        compare(outcome(f, given), outcome(python, given))
    assert f.stats.padded.compilations[0] <= 5


@pytest.mark.parametrize("name", STATIC)
def test_where_it_stays_static(name: str) -> None:
    f, python = functions(STATIC[name]())
    for n in (3, 5, 2):
        found = f(*arguments(n))
        assert found.shape == python(*arguments(n)).shape
    assert f.stats.compilations == [3]


def test_draws_do_not_change_with_padding() -> None:
    found = []
    for dynamic in ("auto", False):
        rng = pytensor.shared(np.random.default_rng(1))
        outputs = [pt.random.normal(size=3, rng=rng), pt.arange(N) * 2]
        f = pytensor.function([N], outputs, mode=JAXLinker(dynamic=dynamic))
        found.append([f(n) for n in (3, 5, 65, 2)])
    for one, other in zip(*found, strict=True):
        compare(one, [np.asarray(value) for value in other])


def test_many_values_cost_a_few_programs() -> None:
    f, _ = functions(pt.arange(N) * X[0])
    for n in np.random.default_rng(0).permutation(300):
        assert len(f(*arguments(int(n)))) == n
    assert f.stats.compilations == [1]
    assert f.stats.padded.compilations == [1]
    assert f.stats.fallbacks == 0


@pytest.mark.parametrize("dynamic", [True, "auto", False])
def test_a_boolean_is_a_length(dynamic: Any) -> None:
    flag = pt.scalar("flag", dtype="bool")
    mode = JAXLinker(dynamic=dynamic)
    f = pytensor.function([flag], [pt.arange(flag), pt.arange(flag).sum() + flag], mode=mode)
    for value in (True, False, True):
        entries, total = f(value)
        np.testing.assert_array_equal(entries, np.arange(int(value)))
        assert total == value


@pytest.mark.parametrize("dynamic", [True, "auto", False])
@pytest.mark.parametrize("kind", ["argument", "shared"])
def test_a_boolean_decides_about_a_length(kind: str, dynamic: Any) -> None:
    flag = pt.scalar("flag", dtype="bool") if kind == "argument" else pytensor.shared(True)
    inputs, updates = ([X, flag], {}) if kind == "argument" else ([X], {flag: ~flag})
    outputs = [X[: pt.switch(flag, 2, 3)], pt.arange(3 + flag)]
    mode = JAXLinker(dynamic=dynamic)
    f = pytensor.function(inputs, outputs, updates=updates, mode=mode)
    for value in (True, False, True, False):
        given = (np.arange(5.0), value)[: len(inputs)]
        for found, length in zip(f(*given), (2 if value else 3, 3 + value), strict=True):
            np.testing.assert_array_equal(found, np.arange(length))


@pytest.mark.parametrize(
    "options", [{"outputs": "numpy"}, {"buckets": [10, 100]}, {"jit": False}, {"donate": "none"}]
)
def test_options(options: Any) -> None:
    f, python = functions([pt.arange(N) * 2, pt.zeros(N)], **options)
    for n in (3, 5, 11, 0, 101):
        compare(outcome(f, arguments(n)), outcome(python, arguments(n)))
    kind = np.ndarray if options.get("outputs") == "numpy" else jax.Array
    assert all(isinstance(value, kind) for value in f(*arguments(4)))


def test_saved(tmp_path: Path) -> None:
    f, python = functions(pt.arange(N) * X[0])
    for n in (3, 5, 2):
        f(*arguments(n))
    save(f, tmp_path / "f")
    loaded = load(tmp_path / "f")
    for n in (3, 5, 2):
        compare(outcome(loaded, arguments(n)), outcome(python, arguments(n)))
