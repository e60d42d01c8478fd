"""`kill -9` of a process with a source function that notes its position: what it emits is written once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

COUNT = 40 * 3_000


@pytest.mark.parametrize(
    "point",
    [
        "taskmanager-0/task.before-snapshot@3",
        "taskmanager-1/task.before-ack@4",
        "taskmanager-0/commit.after@2",
    ],
)
def test_a_function_goes_on_where_its_list_says(job: Any, point: str) -> None:
    job.program = Path(__file__).parent / "programs" / "counter.py"

    done = job.run_into(point, **{"execution.checkpointing.interval": "20 ms"})

    assert done.returncode == 0, done.stderr
    assert job.reached(point), f"{point} was never passed"
    assert job.written() == Counter(f'{{"id":{number}}}' for number in range(COUNT))
