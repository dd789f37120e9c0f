"""Whatever fails, and wherever, each shared variable has the bits that it had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.raise_op import Assert

from pytensor_jaxlink import JAXLinker
from pytensor_jaxlink.plan import HostLoop, HostStep, Region
from tests.helpers import black_box, vector_of

LARGE = 150_000  # entries of float64: more than a megabyte
HUGE = 4 * LARGE  # worth a region of its own
X, FLAGS = pt.dvector("x"), pt.dvector("flags")
HOLD = np.ones(3)


def bits(*shared: Any) -> list[bytes]:
    return [np.asarray(variable.get_value(borrow=True)).tobytes() for variable in shared]


def state(seed: int, size: int = LARGE) -> Any:
    return pytensor.shared(np.random.default_rng(seed).uniform(size=size), name=f"state {seed}")


def callback(function: Any) -> Any:
    """An Op that JAX can call: its output has the shape of its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTensor 3.3 has another name for as_op
        from pytensor.compile.ops import as_op

        decorate = as_op([vector_of("float64")], [vector_of("float64")], lambda *a: a[-1])
        return decorate(function)


@dataclass
class Staged:
    """Three regions with host steps between them, and states: two donated, one set by the host.

    Each host step, and each region where `called`, asks whether it is to fail.  Where `ending`, one
    more host step reads what the third region gives, and the states have a region after it.  Where
    `host_executed`, host steps are in loops that are executed by the host.
    """

    called: bool = False
    ending: bool = False
    host_executed: bool = False
    failing: str = ""
    error: type[BaseException] = ValueError

    def __post_init__(self) -> None:
        size = HUGE if self.ending else LARGE
        self.states = state(1, size), state(2, size), pytensor.shared(np.zeros(3))
        one, other, small = self.states
        first = self.region(0, pt.tanh(one[:3] * X))
        second = self.region(1, pt.exp(self.host(0, first)) + other[:3])
        third = self.host(1, second)
        new = self.region(2, pt.concatenate([third, third * 2])).mean()
        self.inputs = [X, FLAGS]
        self.outputs = [third.sum(), one[:2] * 2]
        if self.ending:
            self.outputs.append(self.host(3, pt.exp(new)[None]))
        self.updates = [(one, one * 0.5 + new), (other, other + one), (small, self.host(2, X))]

    def function(self, mode: Any = None) -> Any:
        mode = mode or JAXLinker(host_ops="callback" if self.called else "split")
        return pytensor.function(self.inputs, self.outputs, updates=self.updates, mode=mode)

    def region(self, number: int, value: Any) -> Any:
        """What a region computes, with a check and perhaps a callback in it."""
        checked = Assert(f"check {number}")(value, pt.gt(FLAGS[number], 0))
        return callback(self.step(f"callback {number}"))(checked) if self.called else checked

    def host(self, number: int, value: Any) -> Any:
        run = black_box(self.step(f"host step {number}"))
        if not self.host_executed:
            return run(value)
        options = {"sequences": [pt.arange(2.0)], "non_sequences": [value]}
        step = lambda each, value: run(pt.sin(value + each))  # noqa: E731
        return pytensor.scan(step, return_updates=False, **options)[-1]

    def step(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        def run(values: np.ndarray) -> np.ndarray:
            if self.failing == name:
                raise self.error("now")
            return values + 0.25

        return run


@cache
def staged(**options: bool) -> tuple[Staged, Any, Any]:
    """The stages, their function, which has donated, and that of the Python linker."""
    stages = Staged(**options)
    f, reference = stages.function(), stages.function(Mode("py", "fast_compile"))
    for _ in range(2):
        f(np.arange(3.0), HOLD)
    assert f.stats.donated_bytes > 0
    return stages, f, reference


def check(fault: str, flags: Any, error: type[BaseException], match: str, **options: Any) -> None:
    """The call fails, twice, nothing has changed, and the next ones are right and donate."""
    stages, f, reference = staged(**options)
    x, before, donated = np.arange(3.0), bits(*stages.states), f.stats.donated_bytes
    stages.failing, stages.error = fault, error
    for _ in range(2):
        with pytest.raises(error, match=match):
            f(x, flags)
        assert bits(*stages.states) == before
    stages.failing = ""
    values = [np.array(variable.get_value()) for variable in stages.states]
    for _ in range(2):
        f(x, HOLD)
    assert f.stats.donated_bytes > donated
    found = [np.array(variable.get_value()) for variable in stages.states]
    for variable, value in zip(stages.states, values, strict=True):
        variable.set_value(value)
    for _ in range(2):
        reference(x, HOLD)
    for variable, value in zip(stages.states, found, strict=True):
        np.testing.assert_allclose(value, variable.get_value(), rtol=1e-12, atol=1e-12)
    f(x, HOLD)  # the states are arrays of JAX again


@pytest.mark.parametrize("host_executed", [False, True])
@pytest.mark.parametrize("ending", [False, True])
def test_the_stages(ending: bool, host_executed: bool) -> None:
    steps = Staged(ending=ending, host_executed=host_executed).function().plan.steps
    kinds = [type(step) for step in steps if not (isinstance(step, HostStep) and step.folded)]
    assert kinds.count(Region) == 3 + ending
    assert kinds[-2:] == [HostLoop if host_executed else HostStep, Region]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize(("number", "ending"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_host_step(number: int, ending: bool, error: type[BaseException]) -> None:
    check(f"host step {number}", HOLD, error, "now", ending=ending)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_host_step_in_a_loop(number: int, error: type[BaseException]) -> None:
    check(f"host step {number}", HOLD, error, "now", ending=True, host_executed=True)


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_check(number: int, called: bool, ending: bool) -> None:
    flags = np.where(np.arange(3) == number, -1.0, 1.0)
    check("", flags, AssertionError, f"check {number}", called=called, ending=ending)


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("error", [ValueError, MemoryError])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_callback(number: int, error: type[BaseException], ending: bool) -> None:
    check(f"callback {number}", HOLD, error, "now", called=True, ending=ending)


def test_a_new_state_that_a_host_step_reads_is_a_copy() -> None:
    one, fails = state(1), False

    def step(values: np.ndarray) -> np.ndarray:
        if fails:
            raise ZeroDivisionError("now")
        return values

    new = one * X.sum()
    f = pytensor.function([X], black_box(step)(new), updates={one: new}, mode="JAXSELECTIVE")
    for _ in range(2):
        f(np.ones(3))
    before, fails = bits(one), True
    with pytest.raises(ZeroDivisionError, match="now"):
        f(np.ones(3))
    assert bits(one) == before
    assert f.stats.donated_bytes == 0


class TestInterrupts:
    """Ctrl-C leaves the states of before the call, or those of after it: never a mixture."""

    @contextmanager
    def delivered(self) -> Iterator[None]:
        # A shell starts its background jobs with this signal ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def counting(self, *, conditional: bool, steps: str) -> tuple[Any, list[Any]]:
        """A function that counts in three states, and its states.

        By ``steps`` "before" the last region the host sets one of them; "after" it, the region of
        the other two is one more.
        """
        size = HUGE if steps == "after" else LARGE
        states = [pytensor.shared(np.zeros(size)) for _ in range(2)]
        last = pytensor.shared(np.zeros(3))
        one = black_box(lambda values: values + 0.0)(X)[0] if steps == "before" else X[0]
        if conditional:
            one = Assert("one")(one, pt.eq(X, 1).all())
        updates = [(each, each + one) for each in states]
        count = black_box(lambda values: values + 1.0)
        updates.append((last, count(last) if steps == "before" else last + 1))
        outputs = [count(pt.exp(X))] if steps == "after" else []
        f = pytensor.function([X], outputs, updates=updates, mode="JAXSELECTIVE")
        for _ in range(3):
            f(np.ones(3))
        assert f.stats.donated_bytes >= 2 * 2 * LARGE * 8
        return f, [*states, last]

    def count(self, states: list[Any]) -> float:
        """What all have counted to."""
        arrays = [np.asarray(each.get_value(borrow=True)) for each in states]
        [found] = {float(array[0]) for array in arrays}
        assert all((array == found).all() for array in arrays)
        return found

    @pytest.mark.parametrize("conditional", [False, True])
    @pytest.mark.parametrize("steps", ["none", "before", "after"])
    @pytest.mark.cpu("calls that wait for a GPU do not all execute the same bytecode")
    def test_at_each_bytecode(self, conditional: bool, steps: str) -> None:
        f, states = self.counting(conditional=conditional, steps=steps)
        x, outcomes = np.ones(3), []
        with self.delivered():
            for target in range(10_000):
                before = self.count(states)
                if not interrupted_at(target, lambda: f(x)):
                    break
                outcomes.append(self.count(states) - before)
        assert set(outcomes) <= {0.0, 1.0}
        assert outcomes[0] == 0
        assert outcomes[-1] == 1
        assert outcomes == sorted(outcomes)  # once stored, always stored
        assert len(outcomes) > 100

    @pytest.mark.parametrize("steps", ["none", "before", "after"])
    def test_at_any_time(self, steps: str) -> None:
        f, states = self.counting(conditional=False, steps=steps)
        x = np.ones(3)
        with self.delivered():
            for trial in range(20):
                timer = threading.Timer(0.0005 * trial, os.kill, (os.getpid(), signal.SIGINT))
                with pytest.raises(KeyboardInterrupt):  # noqa: PT012 -- wherever it arrives
                    timer.start()
                    while True:
                        f(x)
                self.count(states)


def interrupted_at(target: int, call: Callable[[], Any]) -> bool:
    """Whether a call came to so many bytecodes of ours; there it got a Ctrl-C, as a terminal's."""
    done, came = 0, False

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal done, came
        name = frame.f_code.co_filename
        if "pytensor_jaxlink" not in name and name != "<the plan of a function>":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            done += 1
            if done == target + 1:
                came = True
                signal.raise_signal(signal.SIGINT)
        return trace

    # Python 3.12 looks whether some frame wants bytecodes when tracing starts, not later.
    sys._getframe().f_trace_opcodes = True
    try:
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(None)
        if came:
            deadline = time.monotonic() + 10  # it waits until the call has returned
            while time.monotonic() < deadline:
                time.sleep(0.0005)
            raise AssertionError("the interrupt was lost")
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of the address space")
@pytest.mark.cpu("limits the memory of the host")
def test_exhausted_memory() -> None:
    program = """
import resource
import numpy as np, pytensor, pytensor.tensor as pt
import pytensor_jaxlink
from tests.helpers import black_box

s, x = pytensor.shared(np.arange(600_000.0)), pt.dvector("x")
box = black_box(lambda values: values + 1)
greedy = black_box(lambda values: np.ones(1 << 34) * values.sum())
mode = pytensor_jaxlink.JAXLinker(recompile_limit=50)

def function(new, outputs=()):
    given = dict(mode=mode, on_unused_input="ignore")
    return pytensor.function([x], list(outputs), updates=[(s, new)], **given)

def large(start):
    return pt.sort(pt.outer(s + start, s[:20_000]).ravel())[:2]

f = function(s + box(x).sum())
failing = [
    function(s * large(0)[0]),                             # the only region
    function(s * large(box(x).sum())[0]),                  # the last region
    function(s + pt.exp(box(large(0))).sum()),             # the first region
    function(s * 2, [pt.exp(box(pt.tanh(large(box(x).sum()))))]),  # one between
    function(s + pt.exp(greedy(x)).sum()),                 # a host step
    function(s * 2, [greedy(pt.exp(x))]),                  # one after which the state is updated
]
for _ in range(3):
    f(np.ones(3))
before = np.array(s.get_value())
resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.RLIM_INFINITY))
for each in failing:
    for _ in range(2):
        try:
            each(np.ones(3))
        except Exception as error:
            print(type(error).__name__, flush=True)
        assert np.asarray(s.get_value()).tobytes() == before.tobytes()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
donated = f.stats.donated_bytes
f(np.ones(3))
f(np.ones(3))
np.testing.assert_array_equal(s.get_value(), before + 12)
assert f.stats.donated_bytes > donated
print("whole")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.stdout.split()[-1:] == ["whole"], run.stderr
    assert len(run.stdout.split()) == 13
