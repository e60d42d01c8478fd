"""The time of epochs goes on, whatever a clock says."""

from __future__ import annotations

from tidegate.clock import ManualClock
from tidegate.runtime.spark.clock import EpochTimes


def test_what_is_recorded_of_an_epoch_is_its_time_even_if_the_clock_has_gone_back_meanwhile() -> None:
    clock = ManualClock(60_000)
    epoch_times = EpochTimes(clock)
    clock.set(10_000)
    epoch_times.next()

    assert epoch_times.now_ms == epoch_times.recorded_ms == 60_000


def test_after_the_wall_clock_was_set_back_epochs_go_on_at_half_its_pace_until_it_has_caught_up() -> None:
    clock = ManualClock(60_000)
    epoch_times, seen = EpochTimes(clock), list[int]()
    clock.set(58_000)
    for _ in range(5):
        clock.advance(1_000)
        epoch_times.next()
        seen.append(epoch_times.now_ms)

    assert seen == [60_500, 61_000, 61_500, 62_000, 63_000]
    assert clock.now_ms() == 63_000


def test_a_clock_that_the_program_gives_is_not_recorded() -> None:
    assert EpochTimes(ManualClock(60_000), ManualClock(90_000)).recorded_ms == 0
