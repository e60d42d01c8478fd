"""A slow step holds back what is before it: the source reads less, checkpoints take longer, and it is there to see."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.integration.runtime.conftest import Executor, Place
from tidegate.runtime.task.flow import back_pressure


def under_way(place: Place, name: str, delay_s: float, level: str) -> tuple[dict[str, Any], float]:
    """A run of its own once its source is under so much pressure and two checkpoints are decided, or after 20 s.

    Besides, how many records a second it reads from there on, when everything that can hold records holds them.
    """

    def reached(progress: dict[str, Any]) -> bool:
        source = progress.get("flow", {}).get("numbers[0]", {"back_pressure": None})
        return bool(
            (progress.get("decided", 0) >= 2 and progress["records"] and source["back_pressure"] == level)
            or progress.get("elapsed_s", 0) > 20
        )

    directory = place.directory / name
    directory.mkdir()
    running = Place(directory, place.settings, place.started).start("pressed.py", {"delay_s": delay_s})
    seen = running.until(reached)
    later = running.until(lambda progress: progress["elapsed_s"] > seen["elapsed_s"] + 1)
    running.process.send_signal(signal.SIGKILL)
    return seen, (later["records"] - seen["records"]) / (later["elapsed_s"] - seen["elapsed_s"])


@pytest.mark.spec("004/AX-031")
def test_a_slow_sink_slows_the_source_and_the_checkpoints_and_is_seen_per_subtask(
    place: Place, executor: Executor
) -> None:
    assert [back_pressure(share) for share in (0.05, 0.3, 0.6)] == ["ok", "low", "high"]
    place.settings = executor.settings
    quick, quickly = under_way(place, "quick", 0, "ok")

    slow, slowly = under_way(place, "slow", 0.0005, "high")

    source, *behind = (
        slow["flow"][name] for name in sorted(slow["flow"], key=lambda name: name != "numbers[0]")
    )
    assert (source["back_pressure"], source["receiving"]) == ("high", 0)
    assert source["sending"] > 0.5
    assert [(flow["back_pressure"], flow["sending"]) for flow in behind] == [("ok", 0)] * len(behind)
    assert max(flow["receiving"] for flow in behind) > 0.5
    assert slowly < quickly / 4
    assert slow["checkpoint_ms"] > quick["checkpoint_ms"]
