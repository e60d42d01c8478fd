"""Ranges of a sequence: cut, resumed and paced exactly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.connectors.base import Pace, RangeReader, RangeSplit
from tidegate.connectors.spi import Finished, NotYet
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, SplitId

A, B = SplitId("a"), SplitId("b")


def reader(pace: Pace | None = None) -> RangeReader:
    return RangeReader(list, pace)


def values(found: Any) -> list[Any]:
    assert isinstance(found, Batch)
    return found.rows()


@given(
    start=st.integers(0, 50),
    stop=st.none() | st.integers(0, 60),
    step=st.integers(1, 7),
    records=st.integers(1, 9),
)
def test_cutting_partitions_a_split(start: int, stop: int | None, step: int, records: int) -> None:
    split = RangeSplit(A, start, stop, step)

    part, rest = split.cut(records)

    assert list(part.head(100)) == list(split.head(records))
    assert list(part.head(100)) + (list(rest.head(50)) if rest else []) == list(
        split.head(len(part.head(100)) + (50 if rest else 0))
    )
    assert rest is None or not rest.done


def test_splits_are_read_in_turn_and_a_batch_is_of_one_split() -> None:
    both = reader()
    both.add_splits([RangeSplit(A, 0, 3), RangeSplit(B, 10, 12)])

    batches = [both.poll(2) for _ in range(3)]

    assert [values(batch) for batch in batches] == [[0, 1], [10, 11], [2]]
    assert [batch.origin and batch.origin.split for batch in batches if isinstance(batch, Batch)] == [A, B, A]


def test_a_reader_waits_for_splits_until_none_are_promised() -> None:
    idle = reader()

    assert idle.poll(1) == NotYet()
    idle.no_more_splits()
    assert isinstance(idle.poll(1), Finished)


def test_an_empty_split_is_no_work() -> None:
    empty = reader()
    empty.add_splits([RangeSplit(A, 5, 5)])
    empty.no_more_splits()

    assert isinstance(empty.poll(1), Finished)
    assert empty.snapshot(CheckpointId(1)) == []


def test_a_failing_read_loses_no_position() -> None:
    failing = RangeReader(lambda numbers: [1 // number for number in numbers])
    failing.add_splits([RangeSplit(A, 0, 3)])

    with pytest.raises(ZeroDivisionError):
        failing.poll(2)

    assert failing.snapshot(CheckpointId(1)) == [RangeSplit(A, 0, 3)]


def test_a_paced_reader_says_when_to_ask_again_and_never_sleeps(clock: ManualClock) -> None:
    paced = reader(Pace(4.0, clock))
    paced.add_splits([RangeSplit(A, 0, None)])

    assert values(paced.poll(10)) == [0]
    assert paced.poll(10) == NotYet(250)
    clock.advance(249)
    assert paced.poll(10) == NotYet(1)
    clock.advance(1)
    assert values(paced.poll(10)) == [1]


def test_a_second_of_delay_is_made_up_for_but_no_more(clock: ManualClock) -> None:
    paced = reader(Pace(4.0, clock))
    paced.add_splits([RangeSplit(A, 0, None)])
    paced.poll(10)

    clock.advance(60_000)

    assert len(values(paced.poll(100))) == 5
    assert isinstance(paced.poll(100), NotYet)


def test_the_earliest_split_decides_when_to_ask_again(clock: ManualClock) -> None:
    paced = reader(Pace(1.0, clock))
    paced.add_splits([RangeSplit(A, 0, None)])
    paced.poll(1)
    clock.advance(400)
    paced.add_splits([RangeSplit(B, 100, None)])

    assert values(paced.poll(1)) == [100]
    assert paced.poll(1) == NotYet(600)
