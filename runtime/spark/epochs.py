"""Epochs of an attempt: the orders of their tasks, and the selection of the task executions that count."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark import SparkContext

from tidegate.clock import Clock, new_id
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.checkpoint.restore import redistribute
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule.slots import memory_of_task
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.spark.clock import EpochTimes
from tidegate.runtime.spark.files import SentFiles
from tidegate.runtime.spark.jobs import EpochJobs
from tidegate.runtime.spark.messages import Order, ReadOrder, TaskResult
from tidegate.runtime.spark.restore_routing import with_starts
from tidegate.runtime.spark.shape import shape_of
from tidegate.runtime.spark.winners import has_no_losers, winners

__all__ = ["Epochs"]


class Epochs:
    """Runs epochs, each from the end of the newest decided one.

    Args:
        meanwhile: Called periodically while an epoch runs.
    """

    def __init__(
        self,
        startup: Startup,
        start: StartPoint,
        context: SparkContext,
        clock: Clock,
        meanwhile: Callable[[], None],
    ) -> None:
        options = startup.program.options
        self._startup = startup
        self._graph = start.graph
        self._shape = shape_of(start.graph)
        self._vertices, self._main_classes = pack_vertices(start.graph.vertices.values()), pack_main_classes()
        self._attempt = new_id(8)
        self._title = _title(startup.program.name, start.graph)
        self._restored = start.restored
        self._last_execution: int | None = None
        self._files = SentFiles(context, options.resources.files)
        self.sources = frozenset(self._shape.sources)
        """The subtasks that read."""
        self.jobs = EpochJobs(context, clock, None if start.graph.batch else options.timeout_ms, meanwhile)
        self.epoch_times = EpochTimes(clock, options.resources.clock, start.manifest)
        self.results: list[TaskResult] = []
        """The results of the last epoch, one for each subtask."""

    def run(self, trigger: cp.Trigger, reads: Sequence[ReadOrder]) -> list[TaskResult]:
        """Run an epoch; the results of the executions that count.

        Raises:
            ConflictingExecutions: the tasks have consumed different executions.
            TidegateError: a task failed, or Spark did.
        """
        reads = with_starts(self._shape, self._restored, reads)
        outcomes = self.jobs.run(self._order(trigger), reads, self._title)
        self.results = winners(self._shape, outcomes)
        for result in self.results:
            if result.error is not None and not result.declined:
                raise result.error
        return self.results

    def decided(self, manifest: Manifest) -> None:
        """The last epoch is decided: the next one starts where it ended."""
        self._restored = redistribute(self._graph, manifest, onward=True)

    @property
    def has_no_losers(self) -> bool:
        """Whether all task executions that Spark has started in the last epoch count."""
        return has_no_losers(self.results, self._last_execution)

    def settled(self) -> None:
        """The leftovers of other executions of the last epoch are removed."""
        self._last_execution = max((result.task for result in self.results), default=None)

    def close(self) -> None:
        """Release what Spark holds for the attempt."""
        self.jobs.close()
        self._files.close()

    def _order(self, trigger: cp.Trigger) -> Order:
        startup, record = self._startup, self._startup.pipeline.record
        return Order(
            shape=self._shape,
            vertices=self._vertices,
            main_classes=self._main_classes,
            checkpoint=trigger.checkpoint,
            confirmed=trigger.confirmed,
            since=None if self.jobs.moves_outputs else self._last_execution,
            now_ms=self.epoch_times.now_ms,
            since_ms=self.epoch_times.since_ms,
            pipeline=startup.pipeline.id,
            lineage=record.lineage,
            branch=record.branch,
            term=record.lease.term,
            run=startup.run,
            attempt=self._attempt,
            storage=startup.storage,
            backend=startup.backend,
            options=self._options(),
            path=tuple(entry or str(Path.cwd()) for entry in sys.path),
            batch=self._graph.batch,
        )

    def _options(self) -> JobOptions:
        """The options for tasks: with their share of an executor's memory, with files that were sent, without a clock.

        A clock set by the program is read only in the driver; tasks get the time of the epoch.
        """
        options = self._startup.program.options
        memory = memory_of_task(options.managed_bytes, self.jobs.at_once)
        given = replace(options.resources, files=self._files.sent, clock=None)
        return replace(options, managed_bytes=memory, resources=given)


def _title(name: str, graph: JobGraph) -> str:
    """A title of the program for Spark's UI: its name and uids, with bars for exchanges."""
    chains = (", ".join(vertex.nodes) for vertex in graph.vertices.values())
    return f"{name}: {' | '.join(chains)}"
