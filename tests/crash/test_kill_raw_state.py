"""`kill -9` of a process whose functions write their state as bytes of their own: it is there again, nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.crash

PROGRAM = Path(__file__).parent / "programs" / "raw_totals.py"


@pytest.mark.parametrize("backend", ["heap", "filesystem", "rocksdb"])
@pytest.mark.parametrize("point", ["taskmanager-0/task.after-batch@20", "taskmanager-1/task.before-ack@3"])
def test_a_worker_is_replaced_and_reads_what_the_last_checkpoint_holds(
    job: Any, point: str, backend: str
) -> None:
    job.program = PROGRAM

    done = job.run_into(point, state__backend__type=backend, state__backend__fs__memory_threshold=0)

    assert done.returncode == 0, done.stderr
    assert job.reached(point), f"{point} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert job.audit() == []


def test_another_parallelism_reads_the_bytes_of_its_key_groups(job: Any) -> None:
    job.program = PROGRAM

    job.kill_at("jobmanager/checkpoint.after-swap@3")
    result = job.result(parallelism__default=3)

    assert result["resumed_from"] is not None
    assert job.audit() == []
