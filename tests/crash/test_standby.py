"""A second process that stands by takes a job over when its owner is killed, or hangs; the output tells no difference."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.crash.conftest import Job

pytestmark = pytest.mark.crash

LEASE = {"high-availability.lease": "1500 ms"}
OWNER = {"pipeline.progress": "json", **LEASE}
STANDBY = {**OWNER, "high-availability.standby": True}


@contextmanager
def started(job: Job, settings: dict[str, Any], rate: float) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the program; it is gone afterwards."""
    command = replace(job, rate=rate).command(settings)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def in_the_midst(job: Job, settings: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """A process that works through its input slowly, and has taken checkpoints."""
    with started(job, settings, rate=200.0) as owner:
        wait_until(owner, lambda line: line.startswith("{") and json.loads(line).get("decided", 0) >= 3)
        yield owner


@contextmanager
def owner_and_standby(
    job: Job, **settings: Any
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """A process in the midst of its input, and one that stands by and would be quick."""
    with (
        in_the_midst(job, OWNER | settings) as owner,
        started(job, STANDBY | settings, rate=100_000.0) as standby,
    ):
        wait_until(standby, lambda line: "standing by for run" in line)
        yield owner, standby


def wait_until(process: subprocess.Popen[str], wanted: Callable[[str], bool]) -> None:
    """Read what a process says of itself until it says what is wanted."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if wanted(line):
            return
    raise AssertionError(f"it ended before: {said}")


@pytest.mark.spec("004/AX-042")
@pytest.mark.parametrize(
    ("how", "backend"),
    [(signal.SIGKILL, "rocksdb"), (signal.SIGSTOP, "filesystem")],
    ids=["killed-rocksdb", "hanging-filesystem"],
)
def test_a_job_is_taken_over_without_losing_or_repeating_a_record(
    job: Job, how: signal.Signals, backend: str
) -> None:
    of_backend = {"state.backend.type": backend}
    with owner_and_standby(job, **of_backend) as (owner, standby):
        owner.send_signal(how)
        out, err = standby.communicate(timeout=60)
        assert standby.returncode == 0, err
        result = json.loads(out)
        if how is signal.SIGSTOP:
            owner.send_signal(signal.SIGCONT)
        _, said = owner.communicate(timeout=60)

    assert job.audit() == []
    assert result["state"] == "finished"
    assert result["resumed_from"] is not None
    if how is signal.SIGKILL:
        assert owner.returncode == -signal.SIGKILL
    else:
        assert owner.returncode != 0
        assert "FencedError" in said
        assert [json.loads(line)["state"] for line in said.splitlines() if '"state"' in line][
            -1
        ] == "suspended"
        assert f"is now owned by run {result['run']}" in said


def test_who_stands_by_ends_with_a_job_that_ends_by_itself(job: Job) -> None:
    with owner_and_standby(job) as (owner, standby):
        owner.terminate()
        done, _ = owner.communicate(timeout=60)
        out, err = standby.communicate(timeout=60)

    assert (owner.returncode, standby.returncode) == (0, 0), err
    first, second = json.loads(done), json.loads(out)
    assert (second["state"], second["run"], second["records"]) == ("stopped", first["run"], 0)
    assert first["records"] < 3_000


def test_who_stands_by_is_ended_by_a_signal_at_once_and_has_done_well(job: Job) -> None:
    with owner_and_standby(job) as (owner, standby):
        standby.terminate()
        out, err = standby.communicate(timeout=60)
        assert owner.poll() is None, "the owner of the job ended, too"

    assert standby.returncode == 0, err
    assert "SIGTERM: this standby exits; the active run continues" in err
    result = json.loads(out)
    assert (result["state"], result["records"]) == ("stopped", 0)


def test_without_standing_by_a_hanging_owner_keeps_the_job(job: Job) -> None:
    with in_the_midst(job, OWNER) as owner:
        owner.send_signal(signal.SIGSTOP)

        refused = job.run()

    assert refused.returncode != 0
    assert "the pipeline is already running" in refused.stderr
