"""PyTensor's own profiles have the times of our steps."""

from __future__ import annotations

import pickle
from io import StringIO
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.debug.profiling import ProfileStats
from pytensor.compile.io import In

from pytensor_jaxlink import JAXLinker, profile
from tests.helpers import black_box, sort_down
from tests.runtime.test_profiling import CASES, A, counters, outcome, states

X = pt.dvector("x")
sort = black_box(sort_down)


def profiled(outputs: Any, updates: Any = None, **options: Any) -> Any:
    given = {"profile": True} | options
    return pytensor.function([X], outputs, updates=updates, mode="JAXSELECTIVE", **given)


def names(stats: ProfileStats) -> dict[str, int]:
    counts = stats.apply_callcount.items()
    return {str(node.op).split(" at ")[0]: count for (_, node), count in counts}


def test_each_step_has_a_row() -> None:
    f = profiled(pt.exp(sort(pt.tanh(X))))
    for _ in range(3):
        f(A)
    stats = f.profile
    assert names(stats) == {
        "compilation of region 0: 1 operation": 1,
        "region 0: 1 operation": 2,
        "wait for region 0": 3,
        "transfer to host tanh(x)": 3,
        "host step sort_down(tanh(x))": 3,
        "compilation of region 1: 1 operation": 1,
        "region 1: 1 operation": 2,
        "wait for region 1": 3,
    }
    assert stats.fct_callcount == f.stats.calls == 3
    times = list(stats.apply_time.values())
    assert min(times) > 0
    assert sum(times) < stats.vm_call_time < stats.fct_call_time
    [where] = {str(node.op).split(" at ")[1] for _, node in stats.apply_time if " at " in str(node)}
    assert where.startswith(f"{__file__}:")


def test_the_text() -> None:
    f = profiled(pt.exp(sort(pt.tanh(X))))
    f(A)
    text = StringIO()
    f.profile.summary(file=text)
    lines = text.getvalue().splitlines()
    assert any(line.startswith("  Time in thunks: ") for line in lines)
    for end in (".HostStep", ".TransferToHost"):
        assert any(line.endswith(f"pytensor_jaxlink.link.profile_report{end}") for line in lines)
    assert any("transfer to host tanh(x)" in line for line in lines)


@pytest.mark.parametrize(
    "name", ["host steps", "loop", "updates", "donated", "as NumPy", "drawn", "check", "padded"]
)
def test_the_values_are_the_same(name: str) -> None:
    make, calls = CASES[name]
    reference = make()
    with pytensor.config.change_flags(profile=True):
        f = make()
    assert isinstance(f.profile, ProfileStats)
    for arguments in calls:
        assert outcome(f, arguments) == outcome(reference, arguments)
        assert states(f) == states(reference)
    ran = [name for name in counters(f) if name in ("fallbacks", "host_steps", "slow_calls")]
    assert [counters(f)[name] for name in ran] == [counters(reference)[name] for name in ran]
    assert f.profile.fct_callcount <= len(calls)  # not those that raise
    assert sum(f.profile.apply_time.values()) > 0


def test_the_first_call_may_be_left_out() -> None:
    with pytensor.config.change_flags(profiling__ignore_first_call=True):
        f = profiled(pt.exp(sort(pt.tanh(X))))
    f(A)
    assert not f.profile.apply_time
    f(A)
    assert set(names(f.profile).values()) == {1}
    assert not [name for name in names(f.profile) if name.startswith("compilation")]


def test_without_times_of_steps() -> None:
    with pytensor.config.change_flags(profiling__time_thunks=False):
        f = profiled(pt.exp(X))
    f(A)
    assert f.profile.fct_callcount == 1
    assert not f.profile.apply_time
    assert "_recorder" not in vars(f)


def test_a_shared_profile() -> None:
    stats = ProfileStats(atexit_print=False)
    f, g = profiled(pt.exp(X), profile=stats), profiled(pt.exp(sort(X)), profile=stats)
    f(A), g(A)
    assert stats.fct_callcount == 2
    assert sum(name.startswith("compilation of region 0") for name in names(stats)) == 1
    assert len({graph for graph, _ in stats.apply_time}) == 2


def test_both_profiles_at_once() -> None:
    f = profiled(pt.exp(sort(pt.tanh(X))))
    f(A)
    before = names(f.profile)
    with profile(f) as found:
        f(A)
    assert found.calls == 1
    assert "arguments and updates of the slow path" in [row.name for row in found.rows]
    f(A)
    after = names(f.profile)
    assert after["host step sort_down(tanh(x))"] == 3
    assert after["wait for region 0"] == before["wait for region 0"] + 2


def test_a_profile_that_is_given_up() -> None:
    f, reference = profiled(pt.exp(X)), profiled(pt.exp(X), profile=None)
    f(A)
    f.profile = None
    for _ in range(2):
        np.testing.assert_array_equal(f(A), reference(A))
    assert type(f) is type(reference)
    assert f._fast is not None
    assert f.stats.direct == 2


def test_copies_and_pickles() -> None:
    f = profiled(pt.exp(pt.unique(pt.tanh(X))))
    f(A)
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(A), f(A))
    assert names(f.profile).keys() >= names(again.profile).keys() - {"region 0: 1 operation"}
    assert again.profile.fct_callcount == 2  # PyTensor pickles the profile with its maker
    other = f.copy(profile=True)
    other(A)
    assert other.profile.fct_callcount == 1
    assert other.profile.apply_time


def test_mutable_arguments() -> None:
    mode = JAXLinker()
    f = pytensor.function([In(X, mutable=True)], pt.exp(X), mode=mode, profile=True)
    np.testing.assert_allclose(f(A), np.exp(A))
