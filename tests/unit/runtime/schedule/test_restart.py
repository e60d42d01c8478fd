from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate import errors
from tidegate.errors import ConfigError
from tidegate.options import Layer, load
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    worth_restarting,
)

MINUTE = 60_000


def exponential(**changes: Any) -> ExponentialDelay:
    given: dict[str, Any] = {
        "first_ms": 1_000,
        "most_ms": 5_000,
        "factor": 2.0,
        "reset_ms": 60_000,
        "jitter": 0.0,
        "attempts": None,
        "chance": lambda: 0.5,
    }
    return ExponentialDelay(**(given | changes))


@pytest.mark.spec("004/CHK-010")
def test_after_the_last_attempt_there_is_no_restart() -> None:
    strategy = FixedDelay(attempts=2, delay_ms=500)

    assert [strategy.failed(0) for _ in range(4)] == [500, 500, None, None]


@pytest.mark.spec("004/CHK-010")
def test_a_number_of_attempts_counts_over_the_whole_run() -> None:
    strategy = FixedDelay(attempts=2, delay_ms=5)
    strategy.failed(0)
    strategy.progressed()

    assert [strategy.failed(0), strategy.failed(0)] == [5, None]


def test_without_attempts_the_first_failure_is_the_end() -> None:
    assert FixedDelay(attempts=0, delay_ms=5).failed(0) is None


@pytest.mark.spec("004/CHK-012")
def test_without_a_strategy_the_first_failure_is_the_end() -> None:
    strategy = NoRestart()
    strategy.progressed()

    assert strategy.failed(0) is None


@pytest.mark.spec("002/AX-49", "004/CHK-011")
@pytest.mark.parametrize(("minute", "delay_ms"), [(3, None), (6, 10_000)])
def test_the_fourth_failure_counts_only_within_five_minutes(minute: int, delay_ms: int | None) -> None:
    strategy = FailureRate(most=3, interval_ms=5 * MINUTE, delay_ms=10_000)

    assert [strategy.failed(at * MINUTE) for at in (0, 1, 2)] == [10_000] * 3
    assert strategy.failed(minute * MINUTE) == delay_ms


def test_a_failure_leaves_the_interval_when_that_is_over() -> None:
    strategy = FailureRate(most=1, interval_ms=100, delay_ms=1)

    assert [strategy.failed(at) for at in (0, 99, 199, 298)] == [1, None, 1, None]


def test_a_decided_checkpoint_does_not_change_a_rate() -> None:
    strategy = FailureRate(most=1, interval_ms=100, delay_ms=1)
    strategy.failed(0)
    strategy.progressed()

    assert strategy.failed(1) is None


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 4), st.integers(1, 100))
def test_a_rate_is_exceeded_exactly_when_too_many_failures_lie_within_one_interval(
    gaps: list[int], most: int, interval_ms: int
) -> None:
    strategy, at, seen = FailureRate(most, interval_ms, 1), 0, []

    for gap in gaps:
        at += gap
        seen.append(at)
        within = [failure for failure in seen if failure > at - interval_ms]
        assert (strategy.failed(at) is None) == (len(within) > most)


def test_pauses_grow_up_to_the_longest_one() -> None:
    strategy = exponential()

    assert [strategy.failed(0) for _ in range(5)] == [1_000, 2_000, 4_000, 5_000, 5_000]


def test_pauses_begin_anew_after_a_time_without_failures() -> None:
    strategy = exponential()
    strategy.failed(0)
    strategy.progressed()

    assert strategy.failed(60_999) == 2_000
    assert strategy.failed(60_999 + 2_000 + 60_000) == 1_000


def test_a_pause_is_spread_in_both_directions_and_never_longer_than_the_longest() -> None:
    assert exponential(jitter=0.1, chance=lambda: 0.0).failed(0) == 900
    assert exponential(jitter=0.1, chance=lambda: 1.0).failed(0) == 1_100
    assert exponential(jitter=0.1, chance=lambda: 1.0, first_ms=5_000).failed(0) == 5_000


def test_growing_pauses_can_have_an_end_which_a_quiet_time_puts_off() -> None:
    strategy = exponential(attempts=2)

    assert [strategy.failed(0) for _ in range(3)] == [1_000, 2_000, None]
    assert strategy.failed(1_000_000) == 1_000


def test_pauses_stay_finite_after_any_number_of_failures() -> None:
    strategy = exponential()

    assert [strategy.failed(0) for _ in range(1_100)][-1] == 5_000


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        ({"restart-strategy": "fixed-delay"}, FixedDelay(3, 1_000)),
        ({"restart-strategy": "none"}, NoRestart()),
        ({"restart-strategy.type": "off"}, NoRestart()),
        ({"restart-strategy.type": "disable"}, NoRestart()),
        (
            {
                "restart-strategy": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": 3,
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "10 s",
            },
            FailureRate(3, 5 * MINUTE, 10_000),
        ),
    ],
    ids=["fixed delay", "none", "off", "disable", "failure rate"],
)
def test_settings_choose_the_strategy(settings: dict[str, Any], strategy: object) -> None:
    assert load(JobOptions, Layer("file", settings)).strategy() == strategy


def test_settings_fill_in_growing_pauses() -> None:
    prefix = "restart-strategy.exponential-delay."
    settings = {
        "restart-strategy.type": "exponential-delay",
        prefix + "initial-backoff": "20 ms",
        prefix + "max-backoff": "1 min",
        prefix + "backoff-multiplier": "3",
        prefix + "reset-backoff-threshold": "2 min",
        prefix + "jitter-factor": "0",
        prefix + "attempts-before-reset-backoff": 4,
    }
    strategy = load(JobOptions, Layer("file", settings)).strategy()

    assert [strategy.failed(0) for _ in range(5)] == [20, 60, 180, 540, None]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("restart-strategy", "sometimes", "got 'sometimes'; expected one of 'default', 'fixed-delay'"),
        ("restart-strategy.exponential-delay.backoff-multiplier", 0.5, "got 0.5; expected at least 1"),
        ("restart-strategy.exponential-delay.jitter-factor", 1.5, "got 1.5; expected 0 to 1"),
        ("restart-strategy.failure-rate.delay", -1, "got -1; expected at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(JobOptions, Layer("file", {key: value}))


MENDABLE = {
    "InternalError",
    "RecordError",
    "TidegateError",
    "UnavailableError",
    "UserCodeError",
}


@pytest.mark.parametrize("name", errors.__all__)
def test_what_a_restart_cannot_mend_is_not_tried_again(name: str) -> None:
    assert worth_restarting(getattr(errors, name)("x")) == (name in MENDABLE)
