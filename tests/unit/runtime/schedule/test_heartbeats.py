"""Who lives and who hangs."""

from __future__ import annotations

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule.heartbeats import Ask, Heartbeats, Silent


def test_workers_that_answer_are_never_silent() -> None:
    heartbeats = Heartbeats(interval_ms=100, timeout_ms=300)
    heartbeats.watch(0, 1)

    for now_ms in range(0, 5_000, 50):
        asked = heartbeats.tick(now_ms)
        assert asked == ([Ask(0), Ask(1)] if now_ms % 100 == 0 else [])
        for worker in (0, 1):
            heartbeats.answered(worker)


def test_a_worker_is_silent_once_after_the_timeout_and_others_are_not() -> None:
    heartbeats = Heartbeats(interval_ms=100, timeout_ms=300)
    heartbeats.watch(0, 1)
    heartbeats.tick(0)
    heartbeats.answered(0)

    said = []
    for now_ms in range(100, 1_000, 100):
        heartbeats.answered(1)
        said += [each for each in heartbeats.tick(now_ms) if isinstance(each, Silent)]

    assert said == [Silent(0, 300)]


def test_loading_before_the_first_answer_may_take_any_time() -> None:
    heartbeats = Heartbeats(interval_ms=100, timeout_ms=300)
    heartbeats.watch(0)

    assert {each for now_ms in range(0, 10_000, 100) for each in heartbeats.tick(now_ms)} == {Ask(0)}


def test_time_in_which_nobody_could_ask_counts_at_most_once() -> None:
    heartbeats = Heartbeats(interval_ms=100, timeout_ms=300)
    heartbeats.watch(0)
    heartbeats.tick(0)
    heartbeats.answered(0)

    assert heartbeats.tick(100_000) == [Ask(0)]
    assert heartbeats.tick(200_000) == [Ask(0)]
    heartbeats.answered(0)
    assert heartbeats.tick(300_000) == [Ask(0)]


def test_who_is_ended_is_neither_asked_nor_missed() -> None:
    heartbeats = Heartbeats(interval_ms=100, timeout_ms=300)
    heartbeats.watch(0)
    heartbeats.tick(0)
    heartbeats.answered(0)
    heartbeats.forget([0, 7])
    heartbeats.answered(0)

    assert [heartbeats.tick(now_ms) for now_ms in (100, 200, 500)] == [[], [], []]


def test_a_worker_that_takes_the_place_of_another_is_asked_at_once() -> None:
    heartbeats = Heartbeats(interval_ms=1_000, timeout_ms=3_000)
    heartbeats.watch(0)
    heartbeats.tick(0)
    heartbeats.watch(1)

    assert heartbeats.tick(10) == [Ask(0), Ask(1)]


def test_a_timeout_that_no_answer_could_meet_is_refused() -> None:
    with pytest.raises(ConfigError, match="is out of range; got 100; expected more than heartbeat"):
        JobOptions(heartbeat_ms=100, heartbeat_timeout_ms=100)
