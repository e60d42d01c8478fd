"""Epochs as Spark jobs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from pyspark import RDD, SparkContext

from tidegate.clock import Clock
from tidegate.errors import UnavailableError
from tidegate.runtime.spark.causes import Cause
from tidegate.runtime.spark.exchange import Exchange
from tidegate.runtime.spark.master import tasks_at_once
from tidegate.runtime.spark.messages import Order, Outcome, ReadOrder
from tidegate.runtime.spark.tasks import conclude, relay

__all__ = ["EpochJobs"]

_TICK_S = 0.05
_GRACE_S = 5.0
"""Grace period: tasks check the limit themselves first, since they can report the record they were processing."""
_FAREWELL_S = 10.0
_NO_EXECUTORS = "the cluster may have no executor free for it"


class EpochJobs:
    """Runs Spark jobs one after the other in a separate thread, so that the driver can handle signals."""

    def __init__(
        self, context: SparkContext, clock: Clock, timeout_ms: int | None, meanwhile: Callable[[], None]
    ) -> None:
        self._context = context
        self._clock = clock
        self._timeout_s = math.inf if timeout_ms is None else timeout_ms / 1000
        self._meanwhile = meanwhile
        self._exchange = Exchange(context)
        self._group = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-epoch")

    def run(self, order: Order, reads: Sequence[ReadOrder], title: str) -> list[Outcome]:
        """Run an epoch; the results are those of the executions that Spark accepts. Spark's UI shows it as `title`.

        Raises:
            UnavailableError: Spark gave up, or the time limit was exceeded; its tasks have ended, or were cancelled.
        """
        group = self._group = f"tidegate-{order.run}-{order.attempt}"
        started = self._clock.monotonic()
        job = self._thread.submit(
            self._collect, group, f"checkpoint {order.checkpoint} of {title}", order, reads
        )
        try:
            while not wait([job], _TICK_S).done:
                self._meanwhile()
                if self._clock.monotonic() - started > self._timeout_s + _GRACE_S:
                    raise UnavailableError(
                        f"the epoch of checkpoint {order.checkpoint} did not end within {self._timeout_s * 1000:.0f} ms; "
                        f"{self._progress(group)}"
                    )
        finally:
            if not job.done():
                with contextlib.suppress(Exception):  # a Java process that is gone has no tasks to end
                    self._cancel(group)
        return job.result()

    @property
    def copied(self) -> bool:
        """Whether Spark's speculative execution is on."""
        return self._is_set("spark.speculation")

    @property
    def moves_outputs(self) -> bool:
        """Whether Spark migrates shuffle data to other executors, so that tasks of a lost executor need not be repeated."""
        return self._is_set("spark.decommission.enabled")

    @property
    def at_once(self) -> int:
        """The number of tasks that an executor runs at the same time."""
        return tasks_at_once(self._context.master, self._context.getConf().get)

    def await_losers(self) -> None:
        """Wait for speculative copies of tasks that lost to end, as for tasks of a cancelled epoch."""
        self._cancel(self._group)

    def close(self) -> None:
        """Release the thread and the data cached on executors."""
        self._thread.shutdown()
        self._exchange.close()

    def _is_set(self, key: str) -> bool:
        said: str | None = self._context.getConf().get(key)
        return said == "true"

    def _cancel(self, group: str) -> None:
        """Cancel the tasks of a group and wait for them to end, so that they do not occupy executors."""
        running = self._stages(group)
        self._context.cancelJobGroup(group)
        until = self._clock.monotonic() + _FAREWELL_S
        while self._active(running) and self._clock.monotonic() < until:
            self._clock.sleep(_TICK_S)

    def _stages(self, group: str) -> list[int]:
        tracker = self._context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
        return [stage for job in jobs if job is not None for stage in job.stageIds]

    def _active(self, stages: Iterable[int]) -> int:
        """The running tasks."""
        infos = map(self._context.statusTracker().getStageInfo, stages)
        return sum(info.numActiveTasks for info in infos if info is not None)

    def _progress(self, group: str) -> str:
        with contextlib.suppress(Exception):  # the reason is known without it
            active = self._active(self._stages(group))
            return (
                f"{active} of its tasks run"
                if active
                else f"spark knows of no task of it that runs; {_NO_EXECUTORS}"
            )
        return "how many of its tasks run is not known"

    def _collect(
        self, group: str, description: str, order: Order, reads: Sequence[ReadOrder]
    ) -> list[Outcome]:
        try:
            self._context.setJobGroup(group, description, interruptOnCancel=True)
            # A new data set for each epoch: Spark would reuse the results of a known one.
            given: RDD[Any] = self._context.parallelize(reads, len(reads))
            last = len(order.shape.levels) - 1
            for level in range(last):
                sent = given.mapPartitionsWithIndex(partial(relay, order, level))
                given = self._exchange.deal(sent, len(order.shape.levels[level + 1]))
            stage = given.mapPartitionsWithIndex(partial(conclude, order, last))
            outcomes: list[Outcome] = stage.collect()
        except Exception as error:  # a Java error, or a lost connection to the Java process
            raise UnavailableError(
                f"the epoch of checkpoint {order.checkpoint} failed on spark: {Cause.of(error)}"
            ) from error
        return outcomes
