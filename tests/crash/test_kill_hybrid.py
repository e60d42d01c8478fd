"""`kill -9` of a job that reads sources one after the other: each number is written once, whatever stage it was in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

POINTS = [
    "taskmanager-0/task.before-snapshot@3",
    "taskmanager-1/task.before-ack@6",
    "taskmanager-0/commit.after@8",
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One point, or in a long run all."""
    if "point" in metafunc.fixturenames:
        long = metafunc.config.getoption("--profile") == "long"
        metafunc.parametrize("point", POINTS if long else POINTS[1:2])


@pytest.fixture
def stages(job: Any) -> Any:
    job.program = Path(__file__).parent / "programs" / "stages.py"
    return job


def test_a_killed_worker_is_replaced_and_goes_on_in_its_stage(stages: Any, point: str) -> None:
    done = stages.run_into(point)

    assert done.returncode == 0, done.stderr
    assert stages.reached(point), f"{point} was never passed"
    assert stages.written() == Counter(f'{{"id":{number}}}' for number in range(stages.count))


def test_a_killed_program_goes_on_in_a_later_stage_at_another_parallelism(stages: Any) -> None:
    stages.kill_at("jobmanager/checkpoint.after-swap@7")

    done = stages.run(parallelism__default=3)

    assert done.returncode == 0, done.stderr
    assert stages.written() == Counter(f'{{"id":{number}}}' for number in range(stages.count))
