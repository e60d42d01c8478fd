"""When epochs begin and end, by trigger; time is told, nothing waits."""

from __future__ import annotations

import pytest

from tidegate.ids import Subtask
from tidegate.runtime.spark.options import SparkTrigger
from tidegate.runtime.spark.pace import Pace

ONE, TWO = Subtask("source", 0), Subtask("source", 1)
LIMIT = 100


def after(trigger: SparkTrigger, *epochs: tuple[int, int], wakes: tuple[int, ...] = ()) -> Pace:
    """A pace that has seen epochs of 200 ms, from 5,000 on, in which two subtasks read so much."""
    pace = Pace(trigger, interval_ms=1_000)
    for number, (one, two) in enumerate(epochs):
        began_ms = 5_000 + number * 200
        read = {ONE: one, TWO: two}
        limited = {source for source, records in read.items() if records == LIMIT}
        pace.decided(began_ms, began_ms + 200, read, limited, wakes)
    return pace


@pytest.mark.parametrize("trigger", ["as-fast-as-possible", "interval", "available-now"])
def test_the_first_epoch_begins_at_once_and_is_not_the_last(trigger: SparkTrigger) -> None:
    pace = after(trigger)

    assert (pace.next_ms, pace.over) == (0, False)


def test_as_fast_as_possible_waits_only_after_an_epoch_that_read_nothing() -> None:
    assert after("as-fast-as-possible", (0, 1)).next_ms == 0
    assert after("as-fast-as-possible", (0, 0)).next_ms == 5_200 + 1_000
    assert not after("as-fast-as-possible", (0, 0)).over


def test_as_fast_as_possible_wakes_when_there_is_something_to_do() -> None:
    assert after("as-fast-as-possible", (0, 0), wakes=(700, 400)).next_ms == 5_600


def test_interval_begins_an_epoch_per_interval_whatever_was_read() -> None:
    assert after("interval", (LIMIT, LIMIT), wakes=(100,)).next_ms == 6_000
    assert after("interval", (0, 0)).next_ms == 6_000


def test_once_ends_with_its_first_epoch() -> None:
    assert after("once").over


def test_available_now_ends_when_every_source_has_once_read_less_than_it_might() -> None:
    assert not after("available-now", (LIMIT, LIMIT)).over
    assert not after("available-now", (LIMIT, 3)).over
    assert after("available-now", (LIMIT, 3), (7, LIMIT)).over
    assert after("available-now", (0, 0)).over


@pytest.mark.parametrize(
    ("trigger", "thorough"),
    [("as-fast-as-possible", False), ("interval", False), ("available-now", True), ("once", True)],
)
def test_readers_are_thorough_where_nobody_asks_again(trigger: SparkTrigger, thorough: bool) -> None:
    assert after(trigger).thorough is thorough
