"""The checker refuses plans that cannot be run, one test for each condition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytensor_jaxlink.plan import CutOff, Fetch, HostStep, Plan, Region, check_plan

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
