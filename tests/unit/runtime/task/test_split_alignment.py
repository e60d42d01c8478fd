"""A source that is not to get too far ahead of others: what it reports, what it pauses."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.spi import Finished, NotYet
from tidegate.elements import Batch
from tidegate.ids import SplitId
from tidegate.runtime.operators.operator import Piece
from tidegate.runtime.operators.stamp import Stamp
from tidegate.runtime.task.split_alignment import SplitAlignment

SPLITS = [RangeSplit(SplitId("low"), 0, 40), RangeSplit(SplitId("high"), 1_000, 1_020)]


class Rig:
    """A reader of two splits whose records are their times, without a subtask around it."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            lambda value, _: value
        )
        self.stamp = Stamp(strategy.with_idleness(Duration.of_seconds(5)), self.clock)
        self.reader = RangeReader(list)
        self.reader.add_splits(SPLITS)
        self.reader.no_more_splits()
        self.reports: list[int | None] = []
        self.alignment = SplitAlignment(self.stamp, self.reader, self.clock, 100, self.reports.append)

    def poll(self) -> list[int]:
        batch = self.reader.poll(10)
        assert isinstance(batch, Batch)
        assert batch.origin is not None
        self.stamp.read(batch.origin.split, self.reader.unfinished_splits())
        for value in batch.values:
            self.stamp.calls[0].function(value, None)
        self.stamp.own_watermark()
        self.stamp.own_idleness()
        return batch.rows()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_until_a_limit_is_known_each_split_is_read_once(rig: Rig) -> None:
    first = [rig.poll()[0] for _ in range(2) if rig.alignment.may_read()]

    assert first == [0, 1_000]
    assert not rig.alignment.may_read()


def test_a_split_beyond_the_limit_is_paused_and_the_others_are_read(rig: Rig) -> None:
    rig.poll(), rig.poll()
    rig.alignment.allow(25)

    read: list[int] = []
    while rig.alignment.may_read():
        read += rig.poll()

    # A batch is read whole: the limit is passed by less than one.
    assert read == list(range(10, 30))
    rig.alignment.allow(2_000)
    assert rig.alignment.may_read()
    assert sorted([*rig.poll(), *rig.poll()]) == [*range(30, 40), *range(1_010, 1_020)]
    assert isinstance(rig.reader.poll(10), Finished)


def test_a_reader_whose_splits_are_all_paused_is_not_at_its_end(rig: Rig) -> None:
    rig.reader.pause(rig.reader.unfinished_splits())

    assert isinstance(rig.reader.poll(10), NotYet)


def test_where_it_is_is_reported_once_and_not_more_often_than_asked(rig: Rig) -> None:
    rig.alignment.tell()
    rig.poll(), rig.poll()
    rig.alignment.tell()
    rig.alignment.allow(500)
    assert rig.alignment.wait_s() is None
    assert rig.alignment.may_read()
    rig.poll()
    rig.alignment.tell()

    assert (rig.reports, rig.alignment.wait_s()) == ([8], 0.1)
    rig.clock.set(0)  # the wall clock has no say
    rig.clock.advance(100)
    rig.alignment.tell()
    rig.alignment.end()
    assert rig.reports == [8, 18, None]


def test_a_paused_split_is_not_idle(rig: Rig) -> None:
    rig.poll(), rig.poll()
    rig.alignment.allow(500)
    assert rig.alignment.may_read()

    rig.clock.advance(10_000)
    rig.stamp.processing_time(rig.clock.now_ms(), Piece())

    # The split that may be read and brings nothing is idle, the paused one is not, and time is its own.
    assert (rig.stamp.time, rig.stamp.own_idleness()) == (1_008, None)


def test_a_reader_that_knows_no_splits_is_paused_as_a_whole() -> None:
    rig = Rig()
    whole: Any = object()
    alignment = SplitAlignment(rig.stamp, whole, rig.clock, 100, rig.reports.append)
    assert alignment.may_read()
    rig.stamp.calls[0].function(7, None)
    rig.stamp.own_watermark()

    assert not alignment.may_read()
    alignment.allow(6)
    assert alignment.may_read()
    alignment.allow(5)
    assert not alignment.may_read()
