"""The checker refuses plans that cannot be run, one test for each condition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytensor_jaxlink.plan import (
    CutOff,
    Fetch,
    HostBranch,
    HostLoop,
    HostStep,
    LoopLayout,
    Plan,
    Region,
    check_plan,
)

NAMES = tuple("abcdefgh")
GOOD = Plan(
    inputs=(0,),
    outputs=(4,),
    constants=(1,),
    steps=(
        Region(0, (), (0, 1), (2,), ("Exp",)),
        Fetch(2),
        HostStep("Add", (2, 1), (3,), folded=True),
        Region(1, (3,), (0,), (4,), ("Subtensor",)),
    ),
    names=NAMES,
)


def test_a_good_plan_passes() -> None:
    check_plan(GOOD)


def test_a_good_cut_passes() -> None:
    check_plan(with_steps(CutOff("[1:, mask]", (0, 1, 1), (4,), ("start", "mask"))))


SIDE = Plan(inputs=(0,), outputs=(0,), constants=(), steps=(), names=("a",))
LAYOUT = LoopLayout(0, (), (), ((-1,),), 0, 0, conditional=False)


def loop(arguments: tuple[int, ...], results: tuple[int, ...], *measured: int) -> HostLoop:
    """A loop with one state, which each step leaves as it is."""
    return HostLoop("loop", arguments, results, (SIDE,), LAYOUT, measured)


def test_good_loops_and_branches_pass() -> None:
    check_plan(with_steps(loop((0, 1), (4,))))
    check_plan(with_steps(loop((0, 1), (4, 5), 0)))
    check_plan(with_steps(HostBranch("branch", (0, 1), (4,), (SIDE, SIDE))))


def with_steps(*steps: object) -> Plan:
    return replace(GOOD, steps=tuple(steps))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (with_steps(Fetch(2)), "fetches 2 before it is computed"),
        (with_steps(Region(0, (), (5,), (4,), ())), r"reads \{5\} before they are computed"),
        (with_steps(HostStep("h", (5,), (4,), False)), r"reads \{5\} before they are computed"),
        (
            with_steps(Region(0, (), (0,), (4,), ()), Region(1, (), (0,), (4,), ())),
            r"computes \{4\} again",
        ),
        (
            with_steps(Region(0, (), (0,), (2,), ()), Region(1, (2,), (0,), (4,), ())),
            r"depends on \{2\}, which are not on the host",
        ),
        (
            with_steps(Region(0, (), (0,), (2,), ()), HostStep("h", (2,), (3,), True)),
            r"computes with \{2\}, which are not on the host",
        ),
        (
            with_steps(HostStep("h", (0,), (3,), True), HostStep("h", (0,), (3,), True)),
            r"computes \{3\} again",
        ),
        (with_steps(Region(0, (), (0,), (), ())), "a region without results"),
        (with_steps(Region(0, (), (0,), (4, 9), ())), r"the values \{9\} have no names"),
        (with_steps(loop((0,), (4,))), "1 arguments are too few for"),
        (with_steps(loop((0, 1, 1), (4,))), "takes and gives other values"),
        (with_steps(loop((0, 1), (4, 5))), "has other results than its layout"),
        (with_steps(loop((0, 1), (4, 5), 1)), "has other results than its layout"),
        (
            with_steps(replace(loop((0, 1), (4,)), emitted=(("float64", 1),))),
            "has other results than its layout",
        ),
        (
            with_steps(
                replace(
                    loop((0, 1, 1), (4, 5)),
                    layout=replace(LAYOUT, emitted=1),
                    emitted=(("float64", 10**9),),
                )
            ),
            "has other results than its layout",
        ),
        (with_steps(HostBranch("b", (0,), (4,), (SIDE, SIDE))), "takes and gives other values"),
        (with_steps(Region(1, (), (0,), (4,), ())), r"the regions are numbered \[1\]"),
        (with_steps(CutOff("[:n]", (0, 5), (4,), ("stop",))), r"reads \{5\} before they are"),
        (with_steps(CutOff("[:n]", (0,), (4,), ("stop",))), "with 1 values"),
        (with_steps(CutOff("[mask]", (0, 1, 1), (4,), ("mask",))), "with 3 values"),
        (with_steps(CutOff("[:n]", (0, 1), (4,), ("stop start",))), "cuts by {'stop start'}"),
        (with_steps(), r"the outputs \{4\} are never computed"),
    ],
)
def test_a_broken_plan_is_refused(plan: Plan, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_plan(plan)
