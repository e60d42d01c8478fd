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
"""Tasks know the limit themselves, and can say what they were doing."""
_FAREWELL_S = 10.0
_NO_EXECUTORS = "the cluster may have no executor free for it"


class EpochJobs:
    """Runs one job after the other, in a thread of its own, so that the driver hears signals meanwhile."""

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
        """Run an epoch; the results are those of the executions that Spark lets count. Spark's pages show it by `title`.

        Raises:
            UnavailableError: Spark gave up, or it took too long; its tasks have ended, or were told to.
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
        """Whether Spark runs copies of tasks that take long."""
        return self._is_set("spark.speculation")

    @property
    def moves_outputs(self) -> bool:
        """Whether Spark carries what tasks have sent to other executors, so that it need not repeat who is gone."""
        return self._is_set("spark.decommission.enabled")

    @property
    def at_once(self) -> int:
        """How many tasks an executor works on at the same time."""
        return tasks_at_once(self._context.master, self._context.getConf().get)

    def await_losers(self) -> None:
        """Give copies of tasks that have lost time to end, as those of a cancelled epoch."""
        self._cancel(self._group)

    def close(self) -> None:
        """Release the thread and what executors hold."""
        self._thread.shutdown()
        self._exchange.close()

    def _is_set(self, key: str) -> bool:
        said: str | None = self._context.getConf().get(key)
        return said == "true"

    def _cancel(self, group: str) -> None:
        """Have the tasks of a group ended, and give them time to: what they still do would be in the way of others."""
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
        """Tasks that run."""
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
            # A new data set for each epoch: Spark would answer for one it knows without running it again.
            given: RDD[Any] = self._context.parallelize(reads, len(reads))
            last = len(order.shape.levels) - 1
            for level in range(last):
                sent = given.mapPartitionsWithIndex(partial(relay, order, level))
                given = self._exchange.deal(sent, len(order.shape.levels[level + 1]))
            stage = given.mapPartitionsWithIndex(partial(conclude, order, last))
            outcomes: list[Outcome] = stage.collect()
        except Exception as error:  # a Java error, or a connection to the Java process that is gone
            raise UnavailableError(
                f"the epoch of checkpoint {order.checkpoint} failed on spark: {Cause.of(error)}"
            ) from error
        return outcomes
