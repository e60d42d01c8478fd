"""Worker group: the workers of one failover region, deployed and ended together."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tidegate.errors import FencedError
from tidegate.ids import Subtask
from tidegate.runtime.embedded.cluster import Cluster, MessageHandler, ShutdownMode
from tidegate.runtime.embedded.local_recovery import LocalRecovery
from tidegate.runtime.embedded.messages import Deployment, LeaseLost, LeaseRenewed, Post
from tidegate.runtime.graph.execution_graph import Execution, ExecutionGraph
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.schedule.regions import parts
from tidegate.runtime.schedule.slots import Slot, memory_shares
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.task.messages import ToSubtask
from tidegate.runtime.working_directory import WorkerDirectories

__all__ = ["EventQueue", "WorkerGroup", "WorkerMessage", "worker_groups"]

NewCluster: TypeAlias = Callable[[MessageHandler], Cluster]


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker of a group said, and to which of its clusters it belonged."""

    group: WorkerGroup
    cluster: Cluster
    message: object


class EventQueue(queue.SimpleQueue[object]):
    """Messages of workers, and whatever else the coordinator's thread handles in turn.

    Example:
        >>> events = EventQueue()
        >>> events.put("lost")
        >>> events.requeue(["acked", "declined"])
        >>> [events.next(0) for _ in range(3)]
        ['acked', 'declined', 'lost']
    """

    def __init__(self) -> None:
        self._returned: deque[object] = deque()

    def next(self, timeout_s: float) -> object:
        """The next event; called by the coordinator's thread alone, as `requeue` is.

        Raises:
            queue.Empty: there was none in time.
        """
        return self._returned.popleft() if self._returned else self.get(timeout_s > 0, timeout_s)

    def requeue(self, events: Sequence[object]) -> None:
        """Let events that were taken out of turn be the next ones."""
        self._returned.extendleft(reversed(events))


class WorkerGroup:
    """A part and its workers; has a new cluster, and new attempts of its subtasks, for each deployment."""

    def __init__(
        self,
        number: int,
        slots: Mapping[Subtask, Slot],
        job: JobGraph,
        executions: ExecutionGraph,
        new_cluster: NewCluster,
        events: EventQueue,
        copies: LocalRecovery,
    ) -> None:
        self.number = number
        self.slots = slots
        self.executions: list[Execution] = []
        self.start_point: StartPoint | None = None
        self._parts: list[Deployment] = []
        self._job = job
        self._attempts = executions
        self._new_cluster = new_cluster
        self._events = events
        self._copies = copies
        self._cluster: Cluster | None = None
        self._startup: Startup | None = None
        self._directories: WorkerDirectories | None = None

    @property
    def vertices(self) -> list[JobVertex]:
        """What it runs, at least in part."""
        return [
            vertex for id, vertex in self._job.vertices.items() if any(s.vertex == id for s in self.slots)
        ]

    @property
    def workers(self) -> list[int]:
        """The numbers of its workers."""
        return sorted({slot.task_manager for slot in self.slots.values()})

    def ran_by(self, worker: int) -> list[Subtask]:
        """What one of its workers runs."""
        return [subtask for subtask, slot in self.slots.items() if slot.task_manager == worker]

    def start(self, startup: Startup, start: StartPoint, workers: Sequence[int]) -> None:
        """Begin another attempt of its subtasks, from where a checkpoint ends, by starting its workers.

        Raises:
            ConfigError: user code cannot be sent to them, or working state cannot be written.
        """
        self.start_point, self._startup = start, startup
        self.executions = self._attempts.attempt(self.slots)
        self._directories = WorkerDirectories("state", startup.program.options.local_dirs)
        self._parts = self._deployments(startup, start, self._directories)
        cluster = self._cluster = self._new_cluster(
            lambda message: self._events.put(WorkerMessage(self, cluster, message))
        )
        cluster.start(workers)

    def deploy(self) -> None:
        """Give its workers, which are all ready, what they shall run."""
        if self._cluster is not None:
            self._cluster.deploy(self._parts)
            self.lease()
            for execution in self.executions:
                execution.become("deploying")

    @property
    def deployed(self) -> bool:
        """Whether its subtasks receive messages."""
        return bool(self.executions) and all(
            each.state in ("deploying", "running") for each in self.executions
        )

    def opened(self, worker: int) -> None:
        """A worker runs what it was given."""
        for execution in self.executions:
            if execution.slot.task_manager == worker:
                execution.become("running")

    def failed(self, subtasks: list[Subtask]) -> None:
        """These subtasks have failed."""
        for execution in self.executions:
            if execution.id.subtask in subtasks:
                execution.end("failed")

    def is_current(self, said: WorkerMessage) -> bool:
        """Whether it was said by one of its present workers."""
        return said.cluster is self._cluster

    def post(self, subtask: Subtask, message: ToSubtask) -> None:
        """Send a message to a subtask; lost if its worker is not there, or not deployed yet."""
        if self._cluster is not None and self.deployed:
            self._cluster.post(self.slots[subtask].task_manager, Post(subtask, message))

    def lease(self, lost: FencedError | None = None) -> None:
        """Tell its workers until when the owner holds its lease, or that it is `lost`; called by any thread."""
        cluster, start = self._cluster, self._startup
        if cluster is not None and start is not None:
            cluster.lease(LeaseLost(lost) if lost is not None else LeaseRenewed(start.pipeline.valid_until))

    def ping(self, worker: int) -> None:
        """Have one of its workers say that it lives."""
        if self._cluster is not None:
            self._cluster.ping(worker)

    def close(self, how: ShutdownMode, outcome: Literal["finished", "canceled"] = "canceled") -> None:
        """End all of its workers and remove their working state; those that have not failed come to this end."""
        if self._cluster is not None:
            self._cluster.close(how)
            self._cluster = None
        if self._directories is not None:
            self._directories.remove()
        for execution in self.executions:
            execution.end(outcome)

    def _deployments(
        self, startup: Startup, start: StartPoint, directories: WorkerDirectories
    ) -> list[Deployment]:
        places = {subtask: slot.task_manager for subtask, slot in self.slots.items()}
        vertices, main_classes = pack_vertices(self.vertices), pack_main_classes()
        return [
            Deployment(
                worker=worker,
                places=places,
                vertices=vertices,
                main_classes=main_classes,
                restored={s: r for s, r in start.restored.items() if places.get(s) == worker},
                checkpoint=start.checkpoint,
                pipeline=startup.pipeline.id,
                lineage=startup.pipeline.record.lineage,
                branch=startup.pipeline.record.branch,
                term=startup.pipeline.record.lease.term,
                run=startup.run,
                attempt=self.executions[0].id.label,
                storage=startup.storage,
                backend=startup.backend,
                options=startup.program.options,
                directory=directories.of(worker),
                copies=self._copies.directory(worker),
                memory=memory_shares(self._job, self.slots),
                results=start.batch.results if start.batch is not None else None,
                finished=start.batch.finished if start.batch is not None else frozenset(),
            )
            for worker in self.workers
        ]


def worker_groups(
    job: JobGraph,
    executions: ExecutionGraph,
    slots: Mapping[Subtask, Slot],
    new_cluster: NewCluster,
    events: EventQueue,
    copies: LocalRecovery,
    *,
    apart: bool,
) -> list[WorkerGroup]:
    """A group for each part of a job, or one for all of it."""
    places = {subtask: slot.task_manager for subtask, slot in slots.items()}
    groups = parts(job, places) if apart else [frozenset(slots)]
    return [
        WorkerGroup(
            number, {s: slots[s] for s in slots if s in group}, job, executions, new_cluster, events, copies
        )
        for number, group in enumerate(groups)
    ]
