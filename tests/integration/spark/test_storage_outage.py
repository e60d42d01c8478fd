"""Checkpoints in a bucket that cannot be reached in the midst of an epoch, for a while or for good."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.gate import Gate
from tests.waiting import PATIENCE_S, until
from tidegate.testing.services import S3Service

pytestmark = [pytest.mark.spark, pytest.mark.service]

NO_ANSWER = "checkpoint storage cannot read or write s3://"


@pytest.fixture
def gate(s3: S3Service) -> Iterator[Gate]:
    with Gate(s3.port) as gate:
        yield gate


@pytest.fixture
def stops(job: Any, s3: S3Service, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a task waits that has opened its state; all state goes to the bucket, through the gate."""
    place: Path = job.directory / "stops"
    place.mkdir()
    monkeypatch.setenv("TOTALS_STOPS", str(place))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    bucket = s3.new_bucket()
    job.settings |= {
        "state.checkpoints.dir": bucket.replace(str(s3.port), str(gate.port)),
        "state.backend.fs.memory-threshold": 0,
        "pipeline.event-log": str(job.directory / "events"),
    }
    return place


def shut(gate: Gate) -> None:
    gate.open = False


def silence(gate: Gate) -> None:
    gate.passes.clear()


def heal(gate: Gate) -> None:
    gate.open = True
    gate.passes.set()


def at_work(stops: Path, gate: Gate, strike: Callable[[Gate], None]) -> None:
    """Let something happen to the gate when a task is at work."""
    until((stops / "stopped").exists)
    strike(gate)
    (stops / "go").touch()


def texts(job: Any, what: str) -> list[str]:
    """What the job has noted of something so far."""
    log: Path = job.directory / "events"
    events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [event["text"] for event in events if event["what"] == what]


@pytest.mark.parametrize("strike", [shut, pytest.param(silence, marks=pytest.mark.long)])
def test_an_epoch_that_finds_no_storage_runs_again_and_nothing_is_lost_or_doubled(
    job: Any, gate: Gate, stops: Path, strike: Callable[[Gate], None]
) -> None:
    with job.started() as process:
        at_work(stops, gate, strike)
        until(lambda: texts(job, "aborted") or process.poll() is not None)
        heal(gate)
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert NO_ANSWER in texts(job, "declined")[0]
    # Where the number of the next epoch could not be written down either, the job started again.
    assert json.loads(said)["restarts"] <= 1
    assert job.audit() == []


@pytest.mark.long
def test_a_storage_that_stays_away_ends_the_job_in_clear_words_and_the_next_start_goes_on(
    job: Any, gate: Gate, stops: Path
) -> None:
    job.settings["restart-strategy.fixed-delay.delay"] = "10 ms"
    with job.started() as process:
        at_work(stops, gate, shut)
        _, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert NO_ANSWER in texts(job, "declined")[0]
    assert re.search(
        r"JobFailedError: job 'totals' failed and its restarts are used up: s3://.* cannot be read or written: .*"
        "check endpoint, network and permissions",
        complaints,
    )
    assert len(job.rows()) < job.count
    heal(gate)
    with job.started() as process:
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaints

    assert json.loads(said)["resumed_from"] is not None
    assert job.audit() == []
