"""`kill -9` in a batch job, at every stage and around its one commit: each result is written once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

COUNT = 3_000
SETTINGS = {"execution.sorted-inputs.memory": "20 kb"}

WORKER_POINTS = [
    "taskmanager-0/task.after-batch@2",
    "taskmanager-1/task.after-batch@30",
    "taskmanager-0/task.after-batch@60",
    "taskmanager-1/sink.before-flush@1",
    "taskmanager-1/sink.after-prepare@1",
    "taskmanager-0/task.after-snapshot@1",
    "taskmanager-1/task.before-ack@2",
    "taskmanager-0/commit.before@1",
    "taskmanager-1/commit.after@1",
]
JOBMANAGER_POINTS = [
    "jobmanager/checkpoint.before-swap",
    "jobmanager/checkpoint.after-swap",
    "jobmanager/checkpoint.before-settled",
    "jobmanager/checkpoint.after-settled",
]


@pytest.fixture
def batch(job: Any) -> Any:
    """The job of these tests."""
    job.program = Path(__file__).parent / "programs" / "batch_totals.py"
    job.settings = SETTINGS
    return job


def totals() -> Counter[str]:
    """What has to be written."""
    sums: dict[str, list[int]] = {}
    for number in range(COUNT):
        total = sums.setdefault(f"account-{number * 7919 % 97}", [0, 0])
        total[0] += number % 13
        total[1] += 1
    rows = [
        {"account": account, "total": total, "payments": payments}
        for account, (total, payments) in sums.items()
    ]
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def written(batch: Any) -> Counter[str]:
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in batch.written().elements())


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_killed_worker_is_replaced_and_every_total_is_written_once(batch: Any, point: str) -> None:
    done = batch.run_into(point)

    assert done.returncode == 0, done.stderr
    assert batch.reached(point), f"{point} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert written(batch) == totals()


@pytest.mark.parametrize("point", JOBMANAGER_POINTS)
def test_killed_program_is_started_again_and_every_total_is_written_once(batch: Any, point: str) -> None:
    batch.kill_at(point)
    assert batch.result()["state"] == "finished"

    assert written(batch) == totals()


def test_a_checkpoint_of_a_stream_is_no_start_for_a_batch_job(job: Any) -> None:
    job.kill_at("jobmanager/checkpoint.after-swap@2")
    refused = job.run(**{"execution.runtime-mode": "BATCH"})

    assert refused.returncode == 2
    assert "was taken by a streaming run; a batch run cannot restore it" in refused.stderr
    assert "without state with --fresh" in refused.stderr
