"""`kill -9` in the middle of what a watermark makes due: no timer fires twice into the output, and none is lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import Job, retained_by
from tidegate.runtime.checkpoint.manifest import Manifest

pytestmark = pytest.mark.crash

DUE_AT_ONCE = Path(__file__).parent / "programs" / "due_at_once.py"


@pytest.fixture
def due(job: Job) -> Job:
    """A job with 600 timers; one watermark makes 300 of them due."""
    job.program, job.count, job.rate, job.arguments = DUE_AT_ONCE, 600, 600.0, ("0.01",)
    job.settings = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.unaligned.enabled": True,
    }
    return job


def fired(job: Job) -> Counter[int]:
    return Counter(json.loads(line)["id"] for line in job.written().elements())


def is_firing(manifest: Manifest) -> bool:
    """Whether a checkpoint was taken between two pieces."""
    return any(isinstance(time.arrived, int) for operator in manifest.operators for time in operator.times)


def test_a_worker_killed_while_timers_fire_is_replaced_and_each_fires_once(due: Job) -> None:
    done = due.run_into("taskmanager-1/timers.after-piece@60", state__checkpoints__num_retained=1_000)

    assert done.returncode == 0, done.stderr
    assert due.reached("taskmanager-1/timers.after-piece@60")
    assert any(map(is_firing, retained_by(due))), "a barrier passed between two pieces"
    assert fired(due) == Counter(range(600))


def test_a_program_killed_while_timers_fire_goes_on_at_another_parallelism_and_backend(due: Job) -> None:
    due.settings["state.checkpoints.num-retained"] = 1_000
    due.run_into("taskmanager-1/timers.after-piece@60", **{"restart-strategy.type": "none"})
    assert due.reached("taskmanager-1/timers.after-piece@60")
    assert any(map(is_firing, retained_by(due)))
    due.arguments = ("0",)

    result = due.result(parallelism__default=3, state__backend__type="rocksdb")

    assert result["resumed_from"] is not None
    assert fired(due) == Counter(range(600))
