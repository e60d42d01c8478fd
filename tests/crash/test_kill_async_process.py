"""`kill -9` of a process with functions under way that are `async def`: every record counts once, in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

PROGRAM = Path(__file__).parent / "programs" / "async_totals.py"


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("point", ["taskmanager-0/task.after-batch@20", "taskmanager-1/task.before-ack@3"])
def test_what_was_under_way_is_done_again_from_the_last_checkpoint(
    job: Any, point: str, backend: str
) -> None:
    job.program = PROGRAM

    done = job.run_into(point, state__backend__type=backend)

    assert done.returncode == 0, done.stderr
    assert job.reached(point), f"{point} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert job.audit() == []


def test_another_parallelism_goes_on_from_what_was_settled(job: Any) -> None:
    job.program = PROGRAM

    job.kill_at("jobmanager/checkpoint.after-swap@3")
    result = job.result(parallelism__default=3)

    assert result["resumed_from"] is not None
    assert job.audit() == []
