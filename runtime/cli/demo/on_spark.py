"""`tidegate demo --spark`: a pipeline starts on the embedded executor, resumes on Spark, is killed there, and audited.

From the embedded executor it comes by a savepoint, to another parallelism.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.clock import SYSTEM_CLOCK
from tidegate.errors import JobFailedError, UnavailableError
from tidegate.runtime.cli.demo.audit import NAMED, audit
from tidegate.runtime.cli.demo.payments import Payments
from tidegate.runtime.cli.demo.process import JobProcess
from tidegate.runtime.cli.demo.sabotage import sabotage
from tidegate.runtime.cli.demo.scenario import Plan
from tidegate.runtime.cli.demo.workspace import Workspace
from tidegate.runtime.cli.starting import await_start
from tidegate.runtime.control import protocol
from tidegate.runtime.control.control_client import ControlClient
from tidegate.runtime.spark.session import check_spark

__all__ = ["play"]

_MASTER: Final = "local[2]"
_PARALLELISM: Final = 3
_SETTLED: Final = 3
"""Checkpoints that a start takes before something happens to it."""
_SLACK_S: Final = 600.0
_TICK_S: Final = 0.1


def play(plan: Plan, workspace: Workspace, command: Sequence[str], *, sabotaged: bool) -> int:
    """Play it; 0 if input and output agree, 1 if they do not.

    Raises:
        ConfigError, MissingExtraError: there is no Java, or no PySpark.
        JobFailedError: the job ended by itself and not well.
        UnavailableError: the machine is too slow to finish in reasonable time.
    """
    check_spark(os.environ)
    starts = _Starts(plan, workspace, command)
    on_spark = {"execution.target": _MASTER, "parallelism.default": str(_PARALLELISM)}
    savepoint = starts.until_savepoint()
    starts.until_killed({**on_spark, "execution.savepoint.path": savepoint})
    if sabotaged:
        done = sabotage(workspace.output, random.Random(plan.seed))
        starts.say(
            f"SABOTAGE, on purpose: record {done.dropped:,} is dropped from the output and {done.doubled:,} doubled"
        )
    starts.to_the_end(on_spark)
    found = audit(Payments(plan.records), workspace.output)
    report = {
        "passed": found.passed,
        "savepoint": savepoint,
        "records_out": found.records_out,
        "damage": dict(found.counts),
    }
    workspace.report.write_bytes(msgspec.json.encode(report))
    verdict = "nothing lost, nothing twice" if found.passed else "NOT exactly once"
    print(
        f"{verdict}: {found.records_in:,} records in, {found.records_out:,} out and {found.declined:,} filtered"
    )
    for finding in sorted(found.findings, key=lambda each: each.id)[:NAMED]:
        print(f"  {finding.text}")
    return 0 if found.passed else 1


class _Starts:
    """Starts the job again and again."""

    def __init__(self, plan: Plan, workspace: Workspace, command: Sequence[str]) -> None:
        self._workspace = workspace
        self._command = command
        self._began_s = SYSTEM_CLOCK.monotonic()
        self._until_s = self._began_s + plan.seconds + _SLACK_S

    def say(self, text: str) -> None:
        """Something happened."""
        print(f"{SYSTEM_CLOCK.monotonic() - self._began_s:5.1f} s  {text}", flush=True)

    def until_savepoint(self) -> str:
        """Start it on this machine alone, and stop it with a savepoint; where that is."""
        job = self._start("the job starts on the embedded executor", {})
        try:
            note = await_start(lambda each: each.process.pid == job.pid, lambda: job.running)
            self._follow(job, _SETTLED)
            if note is None:
                raise self._failed("it ended too soon")
            with ControlClient(note) as caller:
                stop = protocol.Stop(
                    savepoint=True, directory=str(self._workspace.root.resolve() / "savepoints")
                )
                place = caller.outcome(caller.trigger(stop)).place
            self._expect_success(job)
        finally:
            job.close()
        self.say(f"it is stopped with savepoint {place}")
        return str(place)

    def until_killed(self, settings: dict[str, str]) -> None:
        """Go on upon Spark, and kill that."""
        job = self._start(f"it resumes on Spark at {_MASTER} with parallelism {_PARALLELISM}", settings)
        try:
            self._follow(job, _SETTLED)
            if not job.running:
                raise self._failed("it ended before it could be killed")
            job.kill()
        finally:
            job.close()
        self.say(f"kill -9 to job {job.pid}, its Java and all its children")

    def to_the_end(self, settings: dict[str, str]) -> None:
        """Start it once more."""
        job = self._start("the same again: it resumes from its newest checkpoint", settings)
        try:
            self._follow(job, None)
            self._expect_success(job)
        finally:
            job.close()
        self.say("the job has finished")

    def _start(self, what: str, settings: dict[str, str]) -> JobProcess:
        assigned = (word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
        root, log = self._workspace.root.resolve(), self._workspace.log.resolve()
        job = JobProcess([*self._command, *assigned], root, log, death_s=60)
        self.say(f"{what} (pid {job.pid})")
        return job

    def _follow(self, job: JobProcess, settled: int | None) -> None:
        """Listen until so many checkpoints are settled, or the job is gone."""
        while job.running:
            snapshot = job.receive(_TICK_S)
            if snapshot is not None and settled is not None and snapshot.settled >= settled:
                return
            if SYSTEM_CLOCK.monotonic() > self._until_s:
                raise UnavailableError(
                    "the demo takes too long; this machine is busy: try again, or with fewer --records"
                )

    def _expect_success(self, job: JobProcess) -> None:
        self._follow(job, None)
        if (code := job.wait()) != 0:
            raise self._failed(f"it ended with code {code}")

    def _failed(self, why: str) -> JobFailedError:
        return JobFailedError(f"the demo's job failed: {why}; its output is in {self._workspace.log}")
