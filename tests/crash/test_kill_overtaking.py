"""`kill -9` while a checkpoint holds records on their way: at any parallelism and on every backend they are worked off once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import Job
from tidegate.backends.storage import StorageFiles, open_storage

pytestmark = pytest.mark.crash

HELD_UP = Path(__file__).parent / "programs" / "held_up.py"


@pytest.fixture
def held_up(job: Job) -> Job:
    """A job whose records wait in front of a slow step, with checkpoints that do not."""
    job.program = HELD_UP
    job.settings = {"execution.checkpointing.unaligned.enabled": True}
    return job


def overtaken(job: Job) -> dict[str, int]:
    """The bytes that the newest checkpoint holds of what was on its way, by operator."""
    manifest = job.newest()
    assert manifest is not None
    files = StorageFiles(open_storage(str(job.directory / "state")).blobs, "")
    return {
        str(operator.uid): sum(len(files.fetch(chunk)) for chunk in operator.in_flight)
        for operator in manifest.operators
        if operator.in_flight
    }


def test_records_on_their_way_survive_kills_at_other_parallelisms_and_on_other_backends(held_up: Job) -> None:
    held_up.arguments = ("0.003",)
    for parallelism, backend in ((2, "heap"), (3, "rocksdb")):
        held_up.kill_at(
            "jobmanager/checkpoint.after-swap@3",
            parallelism__default=parallelism,
            state__backend__type=backend,
        )
        assert overtaken(held_up).keys() >= {"slow"}, "records were on their way"
        for witness in held_up.witnesses.iterdir():
            witness.unlink()
    held_up.arguments = ("0",)

    result = held_up.result(parallelism__default=1, state__backend__type="filesystem")

    assert result["resumed_from"] is not None
    assert held_up.audit() == []


def test_a_killed_worker_is_replaced_and_what_was_on_its_way_is_worked_off_once(held_up: Job) -> None:
    held_up.arguments = ("0.001",)
    after_a_while: dict[str, Any] = {"execution.checkpointing.aligned-checkpoint-timeout": "50 ms"}

    done = held_up.run_into("taskmanager-1/task.after-snapshot@12", **after_a_while)

    assert done.returncode == 0, done.stderr
    assert held_up.reached("taskmanager-1/task.after-snapshot@12")
    assert held_up.audit() == []
