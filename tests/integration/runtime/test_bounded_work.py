"""What is read and not yet worked off is bounded by the time it takes, however slow a function is."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.integration.runtime.conftest import Executor, Place
from tidegate.clock import SYSTEM_CLOCK

BUSY_S = 5
"""What may pass on a busy machine where a quiet one needs less than a second; without bounds it was a minute."""


@pytest.mark.parametrize(("seconds", "exchanges"), [(0.002, 0), (0.002, 2), (0.05, 1)])
def test_barriers_and_the_end_of_a_job_pass_a_slow_function_within_about_a_second(
    place: Place, executor: Executor, seconds: float, exchanges: int
) -> None:
    place.settings = executor.settings
    running = place.start(
        "slow.py",
        {"seconds": seconds, "exchanges": exchanges},
        execution__checkpointing__interval="500 ms",
    )
    durations = list[float]()

    def decided(progress: dict[str, Any]) -> bool:
        if progress.get("checkpoint_ms"):
            durations.append(progress["checkpoint_ms"])
        return bool(progress.get("decided", 0) >= 4)

    running.until(decided)
    asked = SYSTEM_CLOCK.monotonic()
    running.process.send_signal(signal.SIGTERM)
    result = running.result()
    took = SYSTEM_CLOCK.monotonic() - asked

    assert result["state"] == "stopped"
    assert took < BUSY_S
    assert durations
    assert max(durations) < BUSY_S * 1_000
    rows = sorted(row["number"] for row in place.rows())
    assert rows == list(range(len(rows)))
    assert 0 < len(rows) <= result["records"] < 20_000
