"""A slow step holds back what is before it: the source reads less, checkpoints take longer, and it is there to see."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from msgspec import convert

from tests.integration.runtime.conftest import Executor, Place
from tidegate.runtime.observe.operators import condition
from tidegate.runtime.observe.run_snapshot import OperatorStats
from tidegate.runtime.task.flow import back_pressure


def under_way(
    place: Place, name: str, delay_s: float, level: str
) -> tuple[dict[str, Any], float, list[float]]:
    """A run of its own once its source is under so much pressure and two checkpoints are decided, or after 20 s.

    Besides, how many records a second it reads from there on, when everything that can hold records holds them, and how long
    its checkpoints took: on a busy machine any single one may take long.
    """
    took: list[float] = []

    def reached(progress: dict[str, Any]) -> bool:
        if progress.get("decided", 0):
            took.append(progress["checkpoint_ms"])
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
    took.append(later["checkpoint_ms"])
    running.process.send_signal(signal.SIGKILL)
    return seen, (later["records"] - seen["records"]) / (later["elapsed_s"] - seen["elapsed_s"]), took


@pytest.mark.spec("004/AX-031")
@pytest.mark.spec("004/BKP-001", "004/BKP-002", "004/BKP-003", "004/BKP-009")
def test_a_slow_sink_slows_the_source_and_the_checkpoints_and_is_seen_per_subtask(
    place: Place, executor: Executor
) -> None:
    assert [back_pressure(share) for share in (0.05, 0.3, 0.6)] == ["ok", "low", "high"]
    place.settings = executor.settings
    _, quickly, short = under_way(place, "quick", 0, "ok")

    slow, slowly, long = under_way(place, "slow", 0.0005, "high")

    source, *behind = (
        slow["flow"][name] for name in sorted(slow["flow"], key=lambda name: name != "numbers[0]")
    )
    assert (source["back_pressure"], source["receiving"]) == ("high", 0)
    assert source["sending"] > 0.5
    assert [(flow["back_pressure"], flow["sending"]) for flow in behind] == [("ok", 0)] * len(behind)
    assert max(flow["receiving"] for flow in behind) > 0.5
    assert slowly < quickly / 4
    assert max(long) > min(short)


def test_a_source_is_busy_while_its_own_work_limits_the_job_and_idle_while_it_waits_for_data(
    place: Place, executor: Executor
) -> None:
    place.settings = executor.settings

    costly = place.start("reading.py", {"cost": 20_000, "rate": None})
    busy = costly.until(
        # While credit grows from one record on, a single one fills the queue of the step behind.
        lambda progress: progress.get("slowest") == "numbers" or progress.get("elapsed_s", 0) > 20
    )
    costly.process.send_signal(signal.SIGKILL)
    waiting = Place(place.directory / "waiting", place.settings, place.started)
    waiting.directory.mkdir()
    idle = waiting.start("reading.py", {"cost": 1, "rate": 5.0}).until(
        lambda progress: progress.get("records", 0) > 5 or progress.get("elapsed_s", 0) > 20
    )

    assert busy["slowest"] == "numbers"
    assert busy["operators"]["numbers"]["reading"] > 0.5
    assert condition(convert(busy["operators"]["numbers"], OperatorStats)).startswith("busy, reads ")
    assert idle["slowest"] is None
    assert condition(convert(idle["operators"]["numbers"], OperatorStats)) == "idle"
    (behind,) = (figures for name, figures in idle["operators"].items() if name != "numbers")
    assert behind["reading"] is None
