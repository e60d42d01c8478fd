"""Runs a program on Spark: one epoch is one Spark job and one checkpoint.

Guarantee: the same as on the embedded executor, whichever process dies. The driver coordinates and commits; readers, user functions
and writers run in tasks. Checkpoints have the same format on both executors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.protocol import How
from tidegate.runtime.job import Startup
from tidegate.runtime.requests import CancelRequested, Request, Requests, SavepointRequested, StopRequested
from tidegate.runtime.result import JobResult
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.spark.id_pool import IdHolds
from tidegate.runtime.spark.master import is_local
from tidegate.runtime.spark.session import check_spark, explained, restartable, spark_context
from tidegate.runtime.spark.shape import shape_of
from tidegate.runtime.status import RunStatus
from tidegate.runtime.supervise import Supervisor

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["SparkDriver"]


class SparkDriver:
    """The Spark executor; `execution.target` is the URL of the master."""

    def __init__(
        self, startup: Startup, clock: Clock, status: RunStatus, observe: Callable[[RunStatus], None]
    ) -> None:
        options = startup.program.options
        self._startup = startup
        self._clock = clock
        self._status = status
        self._observe = observe
        self._requests = Requests(startup.program.name)
        self._examined = self._preloads = is_local(options.target)
        # A paused execution ends with the lease that it last saw renewed during its epoch, or with the one it started with.
        self._holds = IdHolds(2 * options.lease_ms / 1000)
        options.arm_faults("jobmanager")

    def run(self) -> JobResult:
        """Run to the end.

        Raises:
            ConfigError: the program cannot run as one Spark job per epoch or has checkpoints off, the storage cannot create
                files exclusively, or there is no usable Java.
            MissingExtraError: PySpark is not installed.
            JobFailedError: it failed too often in a row.
            TidegateError: it failed with an error that a restart cannot repair.
        """
        if self._startup.storage.decisions is None:
            raise ConfigError(
                f"storage {self._startup.storage.url} cannot decide atomically; expected one that can, because a driver "
                "that is replaced may still be running; use another storage, or set execution.target to embedded"
            )
        if self._startup.program.options.checkpointing == "NONE":
            raise ConfigError(
                "execution.checkpointing.mode NONE is not available on Spark, where each epoch is a checkpoint; "
                "use EXACTLY_ONCE, or set execution.target to embedded"
            )
        shape_of(self._startup.program.graph(None))
        check_spark(os.environ)
        with self._startup.owning():
            supervisor = Supervisor(self._startup, self._clock, self._status, self._observe)
            return supervisor.run(self._attempt)

    def stop(
        self, order: SavepointOrder | None = None, *, drain: bool = False, for_good: bool = False
    ) -> None:
        """Take a last checkpoint and end; may be called from a signal handler."""
        self._requests.ask(StopRequested(order, drain, for_good))

    def savepoint(self, order: SavepointOrder) -> None:
        """Take a savepoint with the next epoch and continue; may be called from any thread."""
        self._requests.ask(SavepointRequested(order))

    def cancel(self) -> None:
        """End without another checkpoint, even during an epoch; may be called from any thread."""
        self._requests.ask(CancelRequested())

    def _attempt(self, restart: RestartStrategy) -> How:
        # Imported late: these modules need PySpark, which has been checked by now.
        from tidegate.runtime.spark.attempt import SparkAttempt

        startup = self._startup
        start = startup.start_point()
        with self._context() as context:
            requests: SimpleQueue[Request] = SimpleQueue()
            self._requests.deliver_to(requests)
            attempt = SparkAttempt(
                *(startup, start, context, self._clock, self._status, restart, self._observe, requests),
                self._holds,
            )
            return self._requests.ended(attempt.run())

    @contextlib.contextmanager
    def _context(self) -> Iterator[SparkContext]:
        """The Spark context; the executors are checked once."""
        from tidegate.runtime.spark.probe import examine

        startup, program = self._startup, self._startup.program
        target = program.options.target
        if not self._examined:
            with spark_context(target, program.name, preload=False) as context:
                self._preloads, self._examined = examine(context, startup.storage), True
                if not (self._preloads and restartable(context)):
                    startup.say(explained(context))
                    yield context
                    return
        with spark_context(target, program.name, preload=self._preloads) as context:
            startup.say(explained(context))
            yield context
