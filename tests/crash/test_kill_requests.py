"""`kill -9` of a process with requests under way: all are asked again, each answer is written once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tidegate.runtime.checkpoint.manifest import decode

pytestmark = pytest.mark.crash

COUNT = 3_000


def waiting(job: Any) -> list[int]:
    """How many entries of queues each checkpoint holds."""
    paths = (job.directory / "state").glob("*/chk-*/_metadata")
    return [
        sum(len(each.items) for operator in manifest.operators for lists in operator.lists for each in lists)
        for manifest in (decode(path.read_bytes(), str(path)) for path in paths)
    ]


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize(
    "point",
    ["taskmanager-0/task.after-batch@99", "taskmanager-1/task.before-ack@3", "taskmanager-0/commit.before@3"],
)
def test_requests_under_way_are_asked_again_and_answers_written_once(
    job: Any, point: str, ordered: bool
) -> None:
    job.program = Path(__file__).parent / "programs" / "lookups.py"

    done = job.run_into(point, ordered=ordered, state__checkpoints__num_retained=99)

    assert done.returncode == 0, done.stderr
    assert job.reached(point), f"{point} was never passed"
    assert any(waiting(job)), "no checkpoint holds a request"
    assert job.written() == Counter(f'{{"id":{number}}}' for number in range(COUNT))


def test_a_queue_survives_the_way_to_another_parallelism(job: Any) -> None:
    job.program = Path(__file__).parent / "programs" / "lookups.py"

    job.kill_at("jobmanager/checkpoint.after-swap@3", ordered=True)
    result = job.result(ordered=True, parallelism__default=3)

    assert result["resumed_from"] is not None
    assert job.written() == Counter(f'{{"id":{number}}}' for number in range(COUNT))
