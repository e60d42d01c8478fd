"""The time of epochs goes on, whatever a clock says."""

from __future__ import annotations

from tidegate.clock import ManualClock
from tidegate.runtime.spark.clock import Moments


def test_what_is_recorded_of_an_epoch_is_its_time_even_if_the_clock_has_gone_back_meanwhile() -> None:
    clock = ManualClock(60_000)
    moments = Moments(clock)
    clock.advance(-50_000)
    moments.next()

    assert moments.now_ms == moments.recorded_ms == 60_000


def test_a_clock_that_the_program_gives_is_not_recorded() -> None:
    assert Moments(ManualClock(60_000), ManualClock(90_000)).recorded_ms == 0
