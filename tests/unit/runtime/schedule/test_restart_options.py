"""What the settings of restarts say together."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.runtime.schedule.restart import FixedDelay
from tidegate.runtime.schedule.restart_options import RestartOptions


@pytest.mark.parametrize(
    ("options", "pauses_ms"),
    [
        ({"restart_attempts": 4, "restart_delay_ms": 500}, 2_000),
        ({"restart_strategy": "failure-rate", "failure_rate": 3, "failure_delay_ms": 100}, 300),
        ({"restart_strategy": "exponential-delay", "backoff_most_ms": 9_000}, 9_000),
        ({"restart_strategy": "exponential-delay", "backoff_most_ms": 9_000, "backoff_attempts": 2}, 18_000),
        ({"restart_strategy": "none"}, 0),
        ({}, 60_000),
    ],
    ids=["fixed delay", "failure rate", "exponential", "exponential with an end", "none", "default"],
)
def test_the_pauses_that_may_follow_one_another_are_known_in_advance(options: Any, pauses_ms: int) -> None:
    assert RestartOptions(**options).pauses_ms == pauses_ms


def test_numbers_of_a_fixed_delay_choose_it_and_nothing_chooses_an_exponential_delay() -> None:
    assert RestartOptions().strategy().failed(0) in range(900, 1_101)
    assert RestartOptions(restart_attempts=5).strategy() == FixedDelay(5, 1_000)
    assert RestartOptions(restart_delay_ms=10).strategy() == FixedDelay(3, 10)
    assert RestartOptions(restart_strategy="fixed-delay").strategy() == FixedDelay(3, 1_000)


def test_a_checkpoint_brings_back_the_first_pause_of_the_default_alone() -> None:
    default = RestartOptions(backoff_jitter=0.0).strategy()
    chosen = RestartOptions(backoff_jitter=0.0, restart_strategy="exponential-delay").strategy()
    for strategy in (default, chosen):
        assert [strategy.failed(0), strategy.failed(0)] == [1_000, 1_500]
        strategy.progressed()

    assert (default.failed(0), chosen.failed(0)) == (1_000, 2_250)
