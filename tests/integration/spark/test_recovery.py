"""Whatever dies, the output is there exactly once, and reading goes on where the newest checkpoint stands."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.losing import lose_shuffled
from tidegate.clock import new_id

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

DRIVER_POINTS = ["checkpoint.before-metadata@2", "checkpoint.after-swap@2", "commit.between@2"]


@pytest.mark.crash
@pytest.mark.parametrize("point", DRIVER_POINTS)
def test_a_driver_that_is_killed_goes_on_exactly_once(job: Any, point: str) -> None:
    job.kill_at(point)
    assert job.audit() != []
    unread = job.unread()

    result = job.run()

    assert job.audit() == []
    assert result.resumed_from is not None
    assert result.records == unread < job.count


@pytest.mark.crash
@pytest.mark.parametrize("point", ["task.after-batch", "sink.after-prepare", "task.after-snapshot"])
def test_a_task_that_dies_is_repeated_by_spark(job: Any, point: str) -> None:
    job.arm(f"taskmanager-1/{point}")

    result = job.run()

    assert not Path(f"/proc/{job.victim(point)}").exists()
    assert job.victim(point) != os.getpid()
    assert (result.state, result.restarts) == ("finished", 0)
    assert job.audit() == []


@pytest.mark.crash
def test_random_values_are_there_once_though_a_task_that_consumed_them_died(job: Any) -> None:
    job.arm("taskmanager-0/task.before-ack")

    result = job.run(before=_random_mark())

    assert job.victim("task.before-ack") != os.getpid()
    assert result.restarts == 0
    assert job.audit() == []
    assert len({row["mark"] for row in job.rows()}) == job.count


@pytest.mark.crash
def test_an_epoch_whose_tasks_consumed_different_executions_runs_again(job: Any, spark: Path) -> None:
    """Subtask 1 loses what was shuffled and dies, so Spark reads again, for it alone, what subtask 0 has."""
    fifo = job.directory / "subtask-0-has-its-records"
    os.mkfifo(fifo)

    result = job.run(before=_random_mark(), behind=lose_shuffled(fifo, spark))

    assert result.restarts == 0
    assert job.audit() == []
    assert len({row["mark"] for row in job.rows()}) == job.count
    # Five epochs are decided, and one more number was used up by the epoch that did not count.
    assert result.checkpoint == 6


@pytest.mark.crash
def test_a_driver_whose_java_process_dies_starts_another_one(job: Any) -> None:
    job.count = 6_000
    job.settings["pipeline.progress"] = "json"
    with job.started() as process:
        job.await_settled(process, 2)
        (java,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(java), signal.SIGKILL)
        said, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints

    result = json.loads(said)

    assert (result["state"], result["restarts"], result["records"]) == ("finished", 1, job.count)
    assert job.audit() == []


def _random_mark() -> Callable[[Any], Any]:
    def mark(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, "mark": new_id()}

    return mark
