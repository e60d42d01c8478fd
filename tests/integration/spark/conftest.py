"""A job that runs on Spark, in a process of its own, or on the embedded executor."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.backends.storage import open_storage
from tidegate.connectors.base import RangeSplit
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.manifest import Manifest, decode
from tidegate.runtime.checkpoint.record import Record, read_record
from tidegate.runtime.client import JobClient
from tidegate.runtime.result import JobResult
from tidegate.spark import register

PROGRAM = Path(__file__).parent / "programs" / "totals.py"

SPARK_ONLY = pytest.mark.filterwarnings(r"ignore:execution\.spark\.:RuntimeWarning")
"""For programs that run on both executors with the same settings, which is worth a warning."""


@dataclass
class Job:
    """The totals program with its own checkpoints and output."""

    directory: Path
    count: int = 600
    rate: float = 0
    """Records a second, 0 for as fast as possible."""
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, target: str = "local[2]", **functions: Callable[[Any], Any]) -> JobResult:
        """Run in this process; `before` sees each record, `behind` each subtask that gets one."""
        program = runpy.run_path(str(PROGRAM))
        result: JobResult = program["run"](
            str(self.output), self.count, self._settings(target), self.rate, **functions
        )
        return result

    def started(self, target: str = "local[2]") -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        """Run in a process of its own; in the end it and the Java process it started are gone."""
        return started([sys.executable, "-P", *self._program(json.dumps(self._settings(target)))])

    def _program(self, settings: str) -> list[str]:
        """What is run in a process of its own."""
        return [str(PROGRAM), str(self.output), str(self.count), settings, str(self.rate)]

    @staticmethod
    def await_settled(process: subprocess.Popen[str], checkpoints: int) -> None:
        """Follow what a process says of its progress until so many checkpoints are settled."""
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("{") and json.loads(line).get("settled", 0) >= checkpoints:
                return
        raise AssertionError(f"the process ended before {checkpoints} checkpoints were settled")

    def arm(self, point: str) -> None:
        """Make a process of the following runs die at a point, once."""
        self.settings |= {"testing.faults": point, "testing.faults-dir": str(self.directory / "witnesses")}

    def kill_at(self, point: str, target: str = "local[2]") -> None:
        """Run in a process of its own, which must die at the point."""
        self.arm(f"jobmanager/{point}")
        with self.started(target) as process:
            assert process.wait(timeout=120) == -signal.SIGKILL
        assert self.victim(point) == process.pid

    def victim(self, point: str) -> int:
        """The process that died at the point."""
        (witness,) = (self.directory / "witnesses").glob(f"*-{point.partition('@')[0]}")
        return int(witness.read_text().split()[0])

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def rows(self) -> list[dict[str, Any]]:
        """Everything that is visible."""
        files = self.output.glob("part-*")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def balances(self) -> dict[str, int]:
        """The last total of each account."""
        rows = sorted(self.rows(), key=lambda row: row["total"])
        return {row["account"]: row["total"] for row in rows}

    def newest(self) -> Manifest:
        """The newest decided checkpoint."""
        storage, newest = open_storage(str(self.directory / "state")), record_of(self).retained[-1]
        with storage.blobs.open(f"{newest.run}/chk-{newest.checkpoint}/_metadata") as file:
            return decode(file.read(), "newest")

    def unread(self) -> int:
        """How many records lie behind the positions of the newest decided checkpoint."""
        (source,) = [operator for operator in self.newest().operators if operator.coordinator is not None]
        assert source.coordinator is not None
        waiting = msgspec.msgpack.decode(source.coordinator)["splits"]
        splits = [msgspec.msgpack.decode(split, type=RangeSplit) for split in source.splits]
        splits += [msgspec.convert(split, RangeSplit) for split in waiting]
        return sum(len(split.head(self.count)) for split in splits)

    def audit(self) -> list[str]:
        """What is wrong with the output: every record shall be there once, every total be a running sum."""
        seen, wrong = Counter(row["id"] for row in self.rows()), []
        wrong += [f"record {number} is there {seen[number]} times" for number in seen if seen[number] > 1]
        wrong += [f"record {number} is missing" for number in range(self.count) if number not in seen]
        running: Counter[str] = Counter()
        for row in sorted(self.rows(), key=lambda row: row["total"]):
            running[row["account"]] += row["amount"]
            if running[row["account"]] != row["total"]:
                wrong.append(f"{row['account']}: total {row['total']} for {running[row['account']]}")
        return wrong

    def _settings(self, target: str) -> dict[str, Any]:
        of_spark = {"execution.spark.epoch-records": 100} if target.startswith(("local", "spark:")) else {}
        return {
            "execution.target": target,
            **of_spark,
            "execution.checkpointing.interval": "100 ms",
            "state.checkpoints.dir": str(self.directory / "state"),
            "parallelism.default": 2,
            "pipeline.progress": "off",
            **self.settings,
        }


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that runs; in the end it and those that it started are gone."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def record_of(job: Job) -> Record:
    """Who owns the pipeline, and which checkpoints it has."""
    decisions = open_storage(str(job.directory / "state")).decisions
    assert decisions is not None
    record, _ = read_record(decisions, PipelineId("totals"))
    assert record is not None
    return record


def start(job: Job, **functions: Callable[[Any], Any]) -> JobClient:
    """Run a job beside the test."""
    program = runpy.run_path(str(PROGRAM))
    env: StreamExecutionEnvironment = program["build"](
        str(job.output), job.count, job._settings("local[2]"), job.rate, **functions
    )
    return env.execute_async("totals")


@pytest.fixture(scope="session")
def session(spark: Path) -> SparkSession:
    """The same Spark for those who speak SQL, with our data sources."""
    found = SparkSession(SparkContext.getOrCreate())
    found.conf.set("spark.sql.shuffle.partitions", "2")
    register(found)
    return found


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A fresh job."""
    return Job(tmp_path)
