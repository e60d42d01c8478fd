"""Structured Streaming into a real broker: processes of Spark are killed, and readers of committed records see each row once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.integration.spark.programs import stream
from tests.integration.spark.topics import left_open, read
from tests.waiting import until
from tidegate.testing.services import KafkaService

pytestmark = [pytest.mark.spark, pytest.mark.service]


@dataclass
class Query:
    """A query with its own topic and checkpoint; one run is one batch."""

    kafka: KafkaService
    topic: str
    directory: Path
    options: dict[str, Any] = field(default_factory=dict)

    def arm(self, fault: str) -> None:
        """Kill the process that passes a point next, once."""
        self.options |= {"testing.faults": fault, "testing.faults-dir": str(self.witnesses)}

    def run(self, session: SparkSession) -> None:
        stream.run(session, str(self.directory / "checkpoint"), self._options())

    def kill_driver(self) -> None:
        """Run in a process of its own, and when somebody passes the point kill Java and Python at once."""
        arguments = [str(self.directory / "checkpoint"), json.dumps(self._options())]
        command = [sys.executable, "-P", str(Path(stream.__file__)), *arguments]
        with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:

            def struck() -> bool:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    _, said = process.communicate(timeout=0.02)
                    raise AssertionError(f"the query ended by itself: {said}")
                return self.struck()

            try:
                until(struck)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def struck(self) -> bool:
        return self.witnesses.exists() and any(self.witnesses.iterdir())

    @property
    def witnesses(self) -> Path:
        return self.directory / "witnesses"

    def audit(self, batches: int) -> list[str]:
        """What is wrong with what readers of committed records see."""
        seen = Counter(row["id"] for row in read(self.kafka.address, self.topic))
        wrong = [f"row {number} is there {count} times" for number, count in seen.items() if count > 1]
        due = range(batches * stream.ROWS)
        wrong += [f"row {number} is missing" for number in due if number not in seen]
        wrong += [f"row {number} is of no batch that was run" for number in seen if number not in due]
        wrong += [f"{each.transactional_id} is open" for each in left_open(self.kafka.address, self.topic)]
        return wrong

    def written(self) -> int:
        """How many rows were ever written, also those that nobody committed."""
        return len(read(self.kafka.address, self.topic, "read_uncommitted"))

    def _options(self) -> dict[str, Any]:
        return {
            "connector": "kafka",
            "kafka.bootstrap.servers": self.kafka.address,
            "topic": self.topic,
            "prefix": self.topic,
            **self.options,
        }


@pytest.fixture
def query(kafka: KafkaService, tmp_path: Path) -> Query:
    return Query(kafka, kafka.new_topic(partitions=2), tmp_path)


ROUNDS = {
    "checkpoint.before-swap": 2,
    "checkpoint.after-swap": 1,
    "commit.between": 1,
    "checkpoint.after-settled": 1,
}
"""Before and after the decision, between two ends of transactions, and before Spark's own commit log; and how often the
rows of the batch are written in all."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Long runs try every point with both victims; others one of them at each, and the rest without Spark."""
    long = metafunc.config.getoption("--profile") == "long"
    if "committing" in metafunc.fixturenames:
        metafunc.parametrize(
            "committing", ROUNDS if long else ["checkpoint.before-swap", "checkpoint.after-settled"]
        )
    if "driving" in metafunc.fixturenames:
        metafunc.parametrize("driving", ROUNDS if long else ["commit.between"])


def test_a_batch_whose_commit_was_killed_is_finished_by_the_next_start(
    session: SparkSession, query: Query, committing: str
) -> None:
    query.arm(f"driver/{committing}")
    with pytest.raises(StreamingQueryException):
        query.run(session)
    assert query.struck()
    query.run(session)  # to the end of the batch, and the next one

    assert query.audit(2) == []
    assert query.written() == (1 + ROUNDS[committing]) * stream.ROWS


@pytest.mark.crash
def test_a_batch_whose_driver_was_killed_is_finished_by_the_next_one(
    session: SparkSession, query: Query, driving: str
) -> None:
    """Python and Java of the driver die at once."""
    query.arm(f"driver/{driving}")
    query.kill_driver()
    query.run(session)

    assert query.audit(2) == []
    assert query.written() == (1 + ROUNDS[driving]) * stream.ROWS


@pytest.mark.parametrize("point", ["sink.before-flush", "sink.after-prepare"])
def test_a_task_that_is_killed_while_it_writes_is_run_again_under_another_id(
    session: SparkSession, query: Query, point: str
) -> None:
    query.arm(f"executor-0/{point}")
    query.run(session)
    assert query.struck()
    claims = sorted(path.name for path in query.directory.glob("checkpoint/tidegate/*/*/claim-*"))

    assert claims == ["claim-0-0", "claim-0-1", "claim-1-0"]
    assert query.audit(1) == []


def test_a_batch_that_spark_forgets_to_have_committed_is_not_written_again(
    session: SparkSession, query: Query
) -> None:
    query.run(session)
    query.run(session)
    for name in ("1", ".1.crc"):
        (query.directory / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    query.run(session)

    assert query.audit(3) == []
    assert query.written() == 3 * stream.ROWS
