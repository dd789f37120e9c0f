"""Which program serves an argument of some length."""

from __future__ import annotations

import pytest

from pytensor_jaxlink.runtime.padding import SMALLEST_BUCKETS, Padding, Programs, Work, bucket_of

ONE = (((0, 0),),)
TWO = (((0, 0),), ((1, 0),))


@pytest.mark.parametrize("power", [1, 2])
def test_the_growth_of_work_is_measured(power: int) -> None:
    work = Work.measured(lambda bucket: 5 * bucket**power)
    assert work is not None
    assert work.at([1024]) == pytest.approx(5 * 1024**power)
    assert work.at([1024, 1024]) == pytest.approx(5 * 1024**power)
    assert work.at([]) == 5 * 64**power
    assert work.smallest_bucket(5 * 256**power) == 256
    assert work.smallest_bucket(1) == SMALLEST_BUCKETS[0]


def test_work_that_nobody_knows() -> None:
    assert Work.measured(lambda bucket: None) is None
    assert Work.measured(lambda bucket: 0) is None


def test_a_longer_program_serves_until_it_has_cost_a_compilation() -> None:
    programs = Programs(Padding(ONE, bucket_of(None), work=Work(64_000, 1)))
    assert programs.serving([100]) == (128,)
    assert programs.serving([2000]) == (2048,)
    assert programs.serving([100]) == (128,)
    # 2048 entries along the dimension are a million more than 1024: 200 calls of these.
    found = [programs.serving([1000]) for _ in range(300)]
    assert set(found) == {(2048,), (1024,)}
    assert 100 < found.index((1024,)) < 250
    assert programs.serving([500]) == (1024,)
    assert programs.compiled_for([500]) == (512,) == programs.serving([400])


def test_a_program_that_is_long_enough_in_every_dimension() -> None:
    programs = Programs(Padding(TWO, bucket_of(None), work=Work(100, 2)))
    assert programs.serving([100, 1000]) == (128, 1024)
    assert programs.serving([1000, 100]) == (1024, 128)
    assert programs.serving([100, 100, 7]) == (128, 1024)
    assert programs.serving([1000, 1000]) == (1024, 1024)


def test_buckets_that_the_user_chose_are_those_of_calls() -> None:
    programs = Programs(Padding(ONE, bucket_of([10, 1000])))
    assert [programs.serving([n]) for n in (999, 3, 11)] == [(1000,), (10,), (1000,)]


def test_numbers_that_are_no_lengths_are_not_padded() -> None:
    padding = Padding((), bucket_of(None), sizes=(0, 1), unbounded=(1,))
    assert padding.buckets([-3, 100]) == (128,)
    assert [padding.can_pad([], [-3, n]) for n in (0, 100, -1, 1 << 60)] == [
        True, True, False, False,
    ]  # fmt: skip
