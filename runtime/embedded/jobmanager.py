"""JobManager: runs a program on this machine until it is finished, stopped or failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.clock import Clock
from tidegate.runtime.batch import BatchProgress
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.protocol import How
from tidegate.runtime.embedded.attempt import Attempt
from tidegate.runtime.embedded.cluster import Cluster, InlineCluster, MessageHandler, ProcessCluster
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.worker_group import EventQueue, worker_groups
from tidegate.runtime.graph.execution_graph import ExecutionGraph
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.requests import CancelRequested, Requests, SavepointRequested, StopRequested
from tidegate.runtime.result import JobResult
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import allocate, cluster_size
from tidegate.runtime.status import RunStatus
from tidegate.runtime.supervise import Supervisor
from tidegate.runtime.task.results import Results
from tidegate.runtime.working_directory import WorkerDirectories

__all__ = ["JobManager"]


class JobManager:
    """The embedded executor: `inline` in one thread, otherwise one process per task manager."""

    def __init__(
        self, startup: Startup, clock: Clock, status: RunStatus, observe: Callable[[RunStatus], None]
    ) -> None:
        options = startup.program.options
        self._startup = startup
        self._clock = clock
        self._status = status
        self._observe = observe
        self._inline = options.target == "inline"
        self._executions: ExecutionGraph | None = None
        self._requests = Requests(startup.program.name)
        self._copies = LocalRecovery(options)
        self._directories = WorkerDirectories("results", options.local_dirs)
        self._batch: BatchProgress | None = None
        options.arm_faults("jobmanager")

    def run(self) -> JobResult:
        """Run to the end.

        Raises:
            JobFailedError: it failed too often in a row.
            TidegateError: it failed with an error that a restart cannot solve.
        """
        with self._startup.owning():
            try:
                return Supervisor(self._startup, self._clock, self._status, self._observe).run(self._attempt)
            finally:
                self._copies.remove()
                self._directories.remove()

    def stop(
        self, order: SavepointOrder | None = None, *, drain: bool = False, for_good: bool = False
    ) -> None:
        """Take a last checkpoint and end; may be called from a signal handler."""
        self._requests.ask(StopRequested(order, drain, for_good))

    def savepoint(self, order: SavepointOrder) -> None:
        """Take a savepoint of the running job; may be called from any thread."""
        self._requests.ask(SavepointRequested(order))

    def cancel(self) -> None:
        """End without another checkpoint; may be called from any thread."""
        self._requests.ask(CancelRequested())

    def _attempt(self, restart: RestartStrategy) -> How:
        start = self._startup.start_point()
        if self._copies.wanted:
            self._copies.keep_only(self._startup.retained_files())
        self._executions = self._executions or ExecutionGraph(start.graph)
        options = self._startup.program.options
        if start.graph.batch:
            start = replace(start, batch=self._progress(start))
        slots = allocate(start.graph, *self._size(start.graph), options.managed_bytes)
        events = EventQueue()
        self._requests.deliver_to(events)
        parts = worker_groups(
            start.graph,
            self._executions,
            slots,
            self._cluster,
            events,
            self._copies,
            apart=options.failover == "region",
        )
        attempt = Attempt(
            self._startup,
            start,
            parts,
            events,
            self._copies,
            self._clock,
            self._status,
            restart,
            self._observe,
        )
        return self._requests.ended(attempt.run())

    def _progress(self, start: StartPoint) -> BatchProgress:
        """What this attempt of a batch job need not make again; behind its checkpoint there is nothing to make."""
        options = self._startup.program.options
        if self._batch is None:
            roots = range(max(1, len(options.local_dirs)))
            self._batch = BatchProgress(Results(tuple(map(self._directories.of, roots))))
            return self._batch
        reuse = start.manifest is None and options.failover == "region"
        self._batch = self._batch.next_attempt(start.graph, reuse=reuse)
        if start.manifest is None:
            self._status.note("regions", self._batch.described(start.graph))
        return self._batch

    def _cluster(self, deliver: MessageHandler) -> Cluster:
        return InlineCluster(deliver, self._clock) if self._inline else ProcessCluster(deliver)

    def _size(self, graph: JobGraph) -> tuple[int, int]:
        """Task managers, and the slots of each; inline is one task manager, however many slots it takes."""
        options = self._startup.program.options
        return (1, graph.slots) if self._inline else cluster_size(graph, options)
