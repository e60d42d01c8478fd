"""Runs a program on this machine: attempt after attempt until it is finished, stopped or beyond help."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from tidegate import faults
from tidegate.clock import Clock
from tidegate.errors import FencedError, JobFailedError, TidegateError
from tidegate.runtime.checkpoint.pipeline import Status
from tidegate.runtime.embedded.attempt import Attempt, How, StopRequested
from tidegate.runtime.embedded.cluster import Cluster, InlineCluster, ProcessCluster
from tidegate.runtime.job import Startup
from tidegate.runtime.result import JobResult
from tidegate.runtime.schedule.restart import FixedDelay, worth_restarting
from tidegate.runtime.status import RunStatus

__all__ = ["JobManager"]


class JobManager:
    """The embedded executor: `inline` in one thread, otherwise one process per slot."""

    def __init__(
        self, startup: Startup, clock: Clock, status: RunStatus, observe: Callable[[RunStatus], None]
    ) -> None:
        options = startup.program.options
        self._startup = startup
        self._clock = clock
        self._status = status
        self._observe = observe
        self._inline = options.target == "inline"
        self._restart = FixedDelay(options.restart_attempts, options.restart_delay_ms)
        self._cluster: Cluster | None = None
        self._stopping = False
        if options.faults and options.faults_dir:
            faults.arm(faults.parse(options.faults), "jobmanager", Path(options.faults_dir))

    def run(self) -> JobResult:
        """Run to the end.

        Raises:
            JobFailedError: it failed too often in a row.
            TidegateError: it failed in a way that a restart cannot mend.
        """
        startup = self._startup
        startup.acquire()
        while True:
            try:
                how = self._attempt()
                break
            except TidegateError as error:
                self._after_failure(error)
            except BaseException:
                self._status.become("failed")
                raise
        ended: Status = "finished" if how == "finish" else "stopped"
        startup.pipeline.leave(ended)
        self._status.become(ended)
        self._observe(self._status)
        return JobResult.of(startup, self._status)

    def stop(self) -> None:
        """Take a last checkpoint and end; may be called from a signal handler."""
        self._stopping = True
        if self._cluster is not None:
            self._cluster.heard.put(StopRequested())

    def _attempt(self) -> How:
        start = self._startup.start_point()
        workers = 1 if self._inline else start.graph.slots
        self._cluster = InlineCluster(self._clock) if self._inline else ProcessCluster()
        if self._stopping:
            self._cluster.heard.put(StopRequested())
        attempt = Attempt(
            self._startup,
            start,
            self._cluster,
            workers,
            self._clock,
            self._status,
            self._restart,
            self._observe,
        )
        return attempt.run()

    def _after_failure(self, error: TidegateError) -> None:
        delay_ms = self._restart.failed() if worth_restarting(error) else None
        if delay_ms is None:
            self._status.become("failed")
            self._observe(self._status)
            with contextlib.suppress(FencedError):
                self._startup.pipeline.leave("failed")
            if not worth_restarting(error):
                raise error
            name = self._startup.program.name
            raise JobFailedError(f"job {name!r} failed and its restarts are used up: {error}") from error
        self._status.become("restarting")
        self._status.note("restart", str(error))
        self._observe(self._status)
        self._clock.sleep(delay_ms / 1000)
