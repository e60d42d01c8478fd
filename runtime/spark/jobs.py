"""Epochs as Spark jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from pyspark import RDD, SparkContext

from tidegate.clock import Clock
from tidegate.errors import UnavailableError
from tidegate.runtime.spark.messages import Order, Outcome, ReadOrder
from tidegate.runtime.spark.tasks import conclude, relay

__all__ = ["EpochJobs"]

_TICK_S = 0.05


class EpochJobs:
    """Runs one job after the other, in a thread of its own, so that the driver hears signals meanwhile."""

    def __init__(
        self, context: SparkContext, clock: Clock, timeout_ms: int, meanwhile: Callable[[], None]
    ) -> None:
        self._context = context
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._meanwhile = meanwhile
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidegate-epoch")

    def run(self, order: Order, reads: Sequence[ReadOrder]) -> list[Outcome]:
        """Run an epoch; the results are those of the executions that Spark lets count.

        Raises:
            UnavailableError: Spark gave up, or it took too long; its tasks are told to end.
        """
        group = f"tidegate-{order.run}-{order.attempt}"
        started = self._clock.monotonic()
        job = self._thread.submit(self._collect, group, order, reads)
        try:
            while not wait([job], _TICK_S).done:
                self._meanwhile()
                if (self._clock.monotonic() - started) * 1000 > self._timeout_ms:
                    raise UnavailableError(
                        f"the epoch of checkpoint {order.checkpoint} did not end within {self._timeout_ms} ms"
                    )
        finally:
            if not job.done():
                with contextlib.suppress(Exception):  # a Java process that is gone has no tasks to end
                    self._context.cancelJobGroup(group)
        return job.result()

    def close(self) -> None:
        """Release the thread."""
        self._thread.shutdown()

    def _collect(self, group: str, order: Order, reads: Sequence[ReadOrder]) -> list[Outcome]:
        try:
            self._context.setJobGroup(group, f"checkpoint {order.checkpoint}", interruptOnCancel=True)
            # A new data set for each epoch: Spark would answer for one it knows without running it again.
            given: RDD[Any] = self._context.parallelize(reads, len(reads))
            last = len(order.shape.levels) - 1
            for level in range(last):
                sent = given.mapPartitionsWithIndex(partial(relay, order, level))
                given = sent.partitionBy(len(order.shape.levels[level + 1]), _itself)
            stage = given.mapPartitionsWithIndex(partial(conclude, order, last))
            outcomes: list[Outcome] = stage.collect()
        except Exception as error:  # a Java error, or a connection to the Java process that is gone
            raise UnavailableError(
                f"the epoch of checkpoint {order.checkpoint} failed on spark: {_cause(error)}"
            ) from error
        return outcomes


def _itself(partition: int) -> int:
    return partition


def _cause(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else f"{type(error).__name__}: {error}"
    return text.strip().splitlines()[0]
