"""Which program serves an argument of some length."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from pytensor_jaxlink.runtime.padding import SMALLEST_BUCKETS, Padding, Programs, Work, bucket_of

ONE = (((0, 0),),)
TWO = (((0, 0),), ((1, 0),))


class Measured:
    """Programs that compute so many entries for an entry of each argument that is padded."""

    def __init__(self, entries: float) -> None:
        self.entries, self.asked, self.most = entries, list[tuple[int, ...]](), 0
        self.work = Work(self.measure, lambda: self.most)

    def measure(self, buckets: Sequence[int]) -> int:
        self.asked.append((*buckets,))
        return round(self.entries * prod(buckets))

    def serving(self, programs: Programs, lengths: Sequence[int]) -> tuple[int, ...]:
        found = programs.serving(lengths)
        self.most = max(self.most, round(self.entries * prod(found)))
        return found


@pytest.mark.parametrize("count", [1, 2])
def test_the_smallest_bucket_is_the_longest_that_computes_little(count: int) -> None:
    programs = Measured(5)
    assert programs.work.smallest_bucket(count, 5 * 256**count) == 256
    assert programs.work.smallest_bucket(count, 1) == SMALLEST_BUCKETS[0]
    assert programs.asked == [(1024,) * count, (256,) * count, (64,) * count]


def test_arrays_of_several_axes_have_shorter_buckets() -> None:
    """Four axes of 64 are 16 million entries."""
    found = [Measured(1).work.smallest_bucket(count, 25_000) for count in range(1, 6)]
    assert found == [1024, 64, 64, 16, 16]
    bucket = bucket_of(None, lambda: 16)
    assert [bucket(n) for n in (0, 3, 16, 17, 1000)] == [16, 16, 16, 32, 1024]


def test_a_longer_program_tells_of_shorter_ones() -> None:
    known = Measured(1)
    assert not known.work.is_at_most(5000, (64, 64))
    assert known.work.is_asked((200, 3))
    assert not known.work.is_asked((50, 3))
    known.work.at((64, 64))
    assert known.work.is_asked((50, 3))
    assert known.work.is_at_most(5000, (64, 64))
    assert known.work.is_at_most(5000, (64, 16))
    assert not known.work.is_at_most(4000, (64, 64))
    assert not known.work.is_at_most(5000, (16, 1024))
    assert known.asked == [(64, 64)]


def test_the_entries_of_padded_arguments() -> None:
    padding = Padding((((0, 0), (0, 2)), ((1, 1),)), bucket_of(None))
    values = np.ones((3, 2, 3)), np.ones((5, 7))
    assert padding.entries(values, (3, 7)) == 3 * 2 * 3 + 5 * 7
    assert padding.entries(values, (64, 16)) == 64 * 2 * 64 + 5 * 16


def test_a_long_argument_asks_for_no_smallest_bucket() -> None:
    asked: list[int] = []
    bucket = bucket_of(None, lambda: asked.append(1) or 256)
    assert [bucket(n) for n in (513, 1024, 5000)] == [1024, 1024, 8192]
    assert not asked
    assert [bucket(n) for n in (0, 3, 256, 257)] == [256, 256, 256, 512]


@pytest.mark.parametrize("nothing", [None, 0])
def test_work_that_nobody_knows(nothing: int | None) -> None:
    work = Work(lambda buckets: nothing, lambda: 0)
    assert work.at((64,)) is None
    assert work.smallest_bucket(1, 10**9) == SMALLEST_BUCKETS[0]
    programs = Programs(Padding(ONE, bucket_of(None), work=work))
    assert [programs.serving([n]) for n in (1000, 10)] == [(1024,), (64,)]


def test_a_longer_program_serves_until_it_has_cost_a_compilation() -> None:
    known = Measured(1000)
    programs = Programs(Padding(ONE, bucket_of(None), work=known.work))
    assert known.serving(programs, [100]) == (128,)
    assert known.serving(programs, [2000]) == (2048,)
    assert known.serving(programs, [100]) == (128,)
    # 2048 entries along the dimension are a million more than 1024: 200 calls of these.
    found = [known.serving(programs, [1000]) for _ in range(90)]
    assert {*found} == {(2048,)}
    assert known.asked == [(1024,), (256,)], "before they were compiled for"
    found = [known.serving(programs, [1000]) for _ in range(210)]
    assert {*found} == {(2048,), (1024,)}
    assert 90 + found.index((1024,)) == 195
    assert known.asked == [(1024,), (256,), (2048,)]
    assert known.serving(programs, [500]) == (1024,)
    assert programs.compiled_for([500]) == (512,) == known.serving(programs, [400])


def test_a_program_that_is_long_enough_in_every_dimension() -> None:
    known = Measured(1)
    programs = Programs(Padding(TWO, bucket_of(None), work=known.work))
    assert known.serving(programs, [100, 1000]) == (128, 1024)
    assert known.serving(programs, [1000, 100]) == (1024, 128)
    assert known.serving(programs, [100, 100, 7]) == (128, 1024)
    assert known.serving(programs, [1000, 1000]) == (1024, 1024)


@pytest.mark.parametrize(
    ("entries", "lengths", "compiled"),
    [
        (97, (100,), (1024,)),
        (98, (100,), (256,)),  # 1024 would take more than 0.1 ms
        (400, (100,), None),
        (1, (2000,), None),  # longer than the candidates
        (0.09, (10, 460), (1024, 1024)),
        (1, (10, 460), (64, 1024)),  # the longest alone
        (1, (200, 100), (256, 256)),
        (2, (10, 460), None),
    ],
)
def test_a_program_is_compiled_for_longer_arguments_where_that_costs_little(
    entries: float, lengths: tuple[int, ...], compiled: tuple[int, ...] | None
) -> None:
    assert Measured(entries).work.ahead(lengths) == compiled


def test_a_longer_program_than_the_first_call_needs() -> None:
    known = Measured(97)
    programs = Programs(Padding(ONE, bucket_of(None), work=known.work))
    assert [known.serving(programs, [n]) for n in (400, 100, 700)] == [(1024,)] * 3
    # 1024 entries along the dimension are 86,912 more than 128: 2,302 calls of these.
    found = [known.serving(programs, [100]) for _ in range(2500)]
    assert {*found} == {(1024,), (128,)}
    assert 1 + found.index((128,)) == 2301


def test_buckets_that_the_user_chose_are_those_of_calls() -> None:
    programs = Programs(Padding(ONE, bucket_of([10, 1000])))
    assert [programs.serving([n]) for n in (999, 3, 11)] == [(1000,), (10,), (1000,)]


def test_numbers_that_are_no_lengths_are_not_padded() -> None:
    padding = Padding((), bucket_of(None), sizes=(0, 1), unbounded=(1,))
    assert padding.buckets([-3, 100]) == (128,)
    assert [padding.can_pad([], [-3, n]) for n in (0, 100, -1, 1 << 60)] == [
        True, True, False, False,
    ]  # fmt: skip
