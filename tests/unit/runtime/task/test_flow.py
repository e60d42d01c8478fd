"""How long a subtask was held up, and what that makes of its batches."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidegate.clock import ManualClock
from tidegate.runtime.task.batch_size import BatchSize
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


@given(seconds=st.lists(st.floats(0, 1), max_size=40), grow=st.booleans())
def test_batches_stay_between_their_bounds_and_grow_only_when_they_may(
    seconds: list[float], grow: bool
) -> None:
    size = BatchSize()
    for took in seconds:
        before = size.limit
        size.took(took, before, grow=grow)
        assert 16 <= size.limit <= (size.largest if grow else before)


def test_a_batch_that_was_not_full_says_nothing_about_a_larger_one() -> None:
    size = BatchSize()
    size.took(0.001, 255)
    assert size.limit == 256


def test_one_slow_batch_says_nothing_and_two_in_a_row_make_batches_smaller() -> None:
    size = BatchSize()
    for seconds, limit in [
        (0.3, 256),
        (0.01, 256),
        (0.3, 256),
        (0.03, 128),
        (0.03, 64),
        (0.01, 64),
        (0.03, 64),
    ]:
        size.took(seconds, 256)
        assert size.limit == limit
