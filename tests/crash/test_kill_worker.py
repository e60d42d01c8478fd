"""`kill -9` of a worker process, at every step it takes part in; the job restarts by itself and writes everything once."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.crash

POINTS = [
    "taskmanager-0/task.after-batch@20",
    "taskmanager-1/task.before-snapshot@3",
    "taskmanager-1/sink.before-flush@3",
    "taskmanager-1/sink.after-prepare@3",
    "taskmanager-0/task.after-snapshot@3",
    "taskmanager-1/task.before-ack@3",
    "taskmanager-0/commit.before@3",
    "taskmanager-1/commit.after@3",
]


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(job: Any, point: str, backend: str) -> None:
    done = job.run_into(point, state__backend__type=backend)

    assert done.returncode == 0, done.stderr
    assert job.reached(point), f"{point} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert job.audit() == []


def test_without_restarts_the_job_fails_and_names_the_worker(job: Any) -> None:
    done = job.run_into("taskmanager-1/task.before-ack@3", **{"restart-strategy.fixed-delay.attempts": 0})

    assert done.returncode == 1
    assert "task manager 2 is gone" in done.stderr
    assert "killed by SIGKILL" in done.stderr
    assert any("is missing" in wrong for wrong in job.audit())
