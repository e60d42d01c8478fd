"""Runs a program on Spark: one epoch is one Spark job and one checkpoint.

Guarantee: as on the embedded executor, whatever dies. The driver coordinates and commits; readers, user functions
and writers run in tasks. Checkpoints have the same format on both executors.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.protocol import How
from tidegate.runtime.job import Startup
from tidegate.runtime.result import JobResult
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.spark.lease import renewing
from tidegate.runtime.spark.session import check_spark, spark_context
from tidegate.runtime.spark.shape import shape_of
from tidegate.runtime.status import RunStatus
from tidegate.runtime.supervise import Supervisor

__all__ = ["SparkDriver"]

_NO_CANCELLATION: Final = "a job on Spark cannot be cancelled yet; stop it, which takes a last checkpoint"


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
        self._stopping = threading.Event()
        self._orders: list[SavepointOrder] = []
        options.arm_faults("jobmanager")

    def run(self) -> JobResult:
        """Run to the end.

        Raises:
            ConfigError: the program does not fit into one Spark job per epoch or wants no checkpoints, the storage cannot
                decide, or there is no usable Java.
            MissingExtraError: PySpark is not installed.
            JobFailedError: it failed too often in a row.
            TidegateError: it failed in a way that a restart cannot mend.
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
        self._startup.acquire()
        with renewing(self._startup.pipeline, self._startup.renewal_s):
            supervisor = Supervisor(self._startup, self._clock, self._status, self._observe)
            return supervisor.run(self._attempt)

    def stop(
        self, order: SavepointOrder | None = None, *, drain: bool = False, for_good: bool = False
    ) -> None:
        """Take a last checkpoint and end; may be called from a signal handler.

        Raises:
            ConfigError: event time shall be brought to its end, or the job be stopped for good.
        """
        if for_good:
            raise ConfigError(_NO_CANCELLATION)
        if drain:
            raise ConfigError(
                "a job on Spark cannot bring event time to its end when it is stopped; "
                "use stop_with_savepoint(False), or the embedded executor"
            )
        if order is not None:
            self._orders.append(order)
        self._stopping.set()

    def savepoint(self, order: SavepointOrder) -> None:
        """Take a savepoint with the next epoch and go on; may be called from any thread."""
        self._orders.append(order)

    def cancel(self) -> None:
        """Not available.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(_NO_CANCELLATION)

    def _attempt(self, restart: RestartStrategy) -> How:
        # Only here: these modules need PySpark, and that it is there has been checked by now.
        from tidegate.runtime.spark.attempt import SparkAttempt

        startup = self._startup
        start = startup.start_point()
        with spark_context(startup.program.options.target, startup.program.name) as context:
            attempt = SparkAttempt(
                startup,
                start,
                context,
                self._clock,
                self._status,
                restart,
                self._observe,
                self._stopping,
                self._orders,
            )
            return attempt.run()
