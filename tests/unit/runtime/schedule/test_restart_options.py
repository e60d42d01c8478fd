"""What the settings of restarts say together."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.runtime.schedule.restart_options import RestartOptions


@pytest.mark.parametrize(
    ("options", "pauses_ms"),
    [
        ({"restart_attempts": 4, "restart_delay_ms": 500}, 2_000),
        ({"restart_strategy": "failure-rate", "failure_rate": 3, "failure_delay_ms": 100}, 300),
        ({"restart_strategy": "exponential-delay", "backoff_most_ms": 9_000}, 9_000),
        ({"restart_strategy": "exponential-delay", "backoff_most_ms": 9_000, "backoff_attempts": 2}, 18_000),
        ({"restart_strategy": "none"}, 0),
    ],
    ids=["fixed delay", "failure rate", "exponential", "exponential with an end", "none"],
)
def test_the_pauses_that_may_follow_one_another_are_known_in_advance(options: Any, pauses_ms: int) -> None:
    assert RestartOptions(**options).pauses_ms == pauses_ms
