"""How long a subtask was held up, and what that makes of its batches."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.runtime.task.batch_size import BatchSize
from tidegate.runtime.task.credit import WorkRate
from tidegate.runtime.task.flow import Flow, FlowMeter, back_pressure


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "ok"), (0.099, "ok"), (0.1, "low"), (0.5, "low"), (0.501, "high"), (1, "high")],
)
def test_thresholds_are_a_tenth_and_a_half(share: float, expected: str) -> None:
    assert back_pressure(share) == expected


def test_a_hold_up_that_goes_on_counts_in_each_reading() -> None:
    clock = ManualClock()
    meter = FlowMeter(clock)
    clock.advance(400)
    meter.held_up(True)
    clock.advance(100)
    assert meter.read(1.0, 0.0) == Flow("low", 0.2, 1.0, 0.0)

    clock.advance(250)
    meter.held_up(True)
    assert meter.read(1.0, 0.0) == Flow("high", 1.0, 1.0, 0.0)

    meter.held_up(False)
    clock.advance(250)
    assert meter.read(0.0, 0.5) == Flow("ok", 0.0, 0.0, 0.5)
    assert meter.held_s() == 0.35
    assert meter.held_s() == 0


@given(
    batches=st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 4), st.floats(0, 1)),
        max_size=40,
    )
)
def test_batches_stay_between_their_bounds_and_grow_only_where_receivers_have_room(
    batches: list[tuple[float, float, float]],
) -> None:
    size = BatchSize()
    for took, filled, full in batches:
        before = size.limit
        size.took(took, max(1, int(before * full)), filled=filled)
        assert 1 <= size.limit <= (before if filled > 1 / 2 else 2 * before)


def test_a_batch_that_was_not_full_says_nothing_about_a_larger_one() -> None:
    size = BatchSize()
    size.took(0.001, 15)
    assert size.limit == 16


def test_one_slow_batch_says_nothing_and_the_quicker_of_two_says_what_can_be_worked_off_in_time() -> None:
    size = BatchSize()
    for seconds, limit in [(0.3, 16), (0.01, 16), (0.3, 16), (0.08, 2), (0.2, 2), (0.2, 1)]:
        size.took(seconds, 16)
        assert size.limit == limit


def test_a_batch_that_is_more_than_a_receiver_takes_at_once_makes_the_next_fit() -> None:
    size = BatchSize()
    size.took(0.001, 16, filled=4.0)
    assert size.limit == 4


@given(
    cost=st.floats(1e-6, 0.5),
    channels=st.integers(1, 16),
    pieces=st.lists(st.integers(1, 1_000), min_size=1, max_size=50),
)
def test_what_may_wait_for_a_receiver_is_a_fifth_of_a_second_of_work(
    cost: float, channels: int, pieces: list[int]
) -> None:
    rate = WorkRate()
    for records in pieces:
        rate.processed(records, records * cost)
    waiting_s = rate.window(channels) * channels * cost
    assert waiting_s <= max(0.2, channels * cost) * 1.01
    most = min(131_072 * channels, 2 * sum(pieces)) * cost
    assert waiting_s >= min(0.2, most) * 0.99 - channels * cost


def test_a_receiver_that_becomes_slow_is_noticed_within_a_second_of_work() -> None:
    rate = WorkRate()
    rate.processed(1_000_000, 1.0)
    for _ in range(10):
        rate.processed(50, 0.1)
    assert rate.window(1) <= 200
