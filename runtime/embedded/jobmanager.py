"""Runs a program on this machine: attempt after attempt until it is finished, stopped or beyond help."""

from __future__ import annotations

import queue
from collections.abc import Callable

from tidegate.clock import Clock
from tidegate.errors import JobCancelledError
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.embedded.attempt import Attempt, How
from tidegate.runtime.embedded.cluster import Cluster, Hear, InlineCluster, ProcessCluster
from tidegate.runtime.embedded.crew import Heard, crews
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.requests import CancelRequested, Request, SavepointRequested, StopRequested
from tidegate.runtime.graph.execution_graph import ExecutionGraph
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.job import Startup
from tidegate.runtime.result import JobResult
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.slots import allocate, cluster_size
from tidegate.runtime.status import RunStatus
from tidegate.runtime.supervise import Supervisor

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
        self._heard: Heard | None = None
        self._executions: ExecutionGraph | None = None
        self._asked: list[Request] = []
        options.arm_faults("jobmanager")

    def run(self) -> JobResult:
        """Run to the end.

        Raises:
            JobFailedError: it failed too often in a row.
            TidegateError: it failed in a way that a restart cannot mend.
        """
        self._startup.acquire()
        try:
            return Supervisor(self._startup, self._clock, self._status, self._observe).run(self._attempt)
        finally:
            for run in filter(None, (self._startup.run_before, self._startup.run)):
                LocalRecovery(self._startup.program.options, run).remove()

    def stop(
        self, order: SavepointOrder | None = None, *, drain: bool = False, for_good: bool = False
    ) -> None:
        """Take a last checkpoint and end; may be called from a signal handler."""
        self._ask(StopRequested(order, drain, for_good))

    def savepoint(self, order: SavepointOrder) -> None:
        """Take a savepoint and go on; may be called from any thread."""
        self._ask(SavepointRequested(order))

    def cancel(self) -> None:
        """End without another checkpoint; may be called from any thread."""
        self._ask(CancelRequested())

    def _ask(self, request: Request) -> None:
        self._asked.append(request)
        if self._heard is not None:
            self._heard.put(request)

    def _attempt(self, restart: RestartStrategy) -> How:
        start = self._startup.start_point()
        copies = LocalRecovery(self._startup.program.options, self._startup.run)
        if copies.wanted:
            copies.keep_only(self._startup.retained_files())
        self._executions = self._executions or ExecutionGraph(start.graph)
        options = self._startup.program.options
        slots = allocate(start.graph, *self._size(start.graph), options.managed_bytes)
        heard = self._heard = queue.SimpleQueue()
        for request in filter(None, map(_unfulfilled, self._asked)):
            heard.put(request)
        parts = crews(
            start.graph, self._executions, slots, self._cluster, heard, apart=options.failover == "region"
        )
        attempt = Attempt(
            self._startup, start, parts, heard, self._clock, self._status, restart, self._observe
        )
        how = attempt.run()
        if how == "stop" and any(isinstance(each, StopRequested) and each.for_good for each in self._asked):
            raise JobCancelledError(f"job {self._startup.program.name!r} was stopped for good")
        return how

    def _cluster(self, hear: Hear) -> Cluster:
        return InlineCluster(hear, self._clock) if self._inline else ProcessCluster(hear)

    def _size(self, graph: JobGraph) -> tuple[int, int]:
        """Task managers, and the slots of each; inline is one task manager, however many slots it takes."""
        options = self._startup.program.options
        return (1, graph.slots) if self._inline else cluster_size(graph, options)


def _unfulfilled(request: Request) -> Request | None:
    """What a new attempt still has to do of what was asked: a savepoint is written once, a stop stays one."""
    match request:
        case SavepointRequested(order) if order.taken.done():
            return None
        case StopRequested(order=order) if order is not None and order.taken.done():
            return StopRequested(for_good=request.for_good)
    return request
