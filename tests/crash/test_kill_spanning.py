"""`kill -9` at each step of files that span checkpoints: each record is seen once, and nothing stays hidden."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

WORKER_POINTS = [
    "taskmanager-0/sink.before-flush@9",
    "taskmanager-1/sink.after-flush@9",
    "taskmanager-0/sink.after-prepare@4",
    "taskmanager-1/commit.between@1",
    "taskmanager-0/commit.after@2",
]
JOBMANAGER_POINTS = ["jobmanager/checkpoint.after-metadata@4", "jobmanager/checkpoint.after-swap@4"]


@pytest.fixture
def spanning(job: Any) -> Any:
    """The job of these tests."""
    job.program = Path(__file__).parent / "programs" / "spanning.py"
    return job


def seen(job: Any) -> Counter[str]:
    """Every line of every visible file, with how often it is there."""
    return Counter(
        line for path in job.output.glob("half=*/part-*") for line in path.read_text().splitlines()
    )


def check(job: Any) -> None:
    assert seen(job) == Counter(f'{{"id":{number}}}' for number in range(job.count))
    assert [path.name for path in (job.output / ".tidegate").rglob("*") if path.is_file()] == ["claim"]


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_killed_worker_is_replaced_and_goes_on_with_its_files(spanning: Any, point: str) -> None:
    done = spanning.run_into(point)

    assert done.returncode == 0, done.stderr
    assert spanning.reached(point), f"{point} was never passed"
    check(spanning)


@pytest.mark.parametrize("point", JOBMANAGER_POINTS)
def test_a_killed_program_goes_on_with_its_files_at_another_parallelism(spanning: Any, point: str) -> None:
    spanning.kill_at(point)
    assert spanning.result(parallelism__default=3)["state"] == "finished"

    check(spanning)
