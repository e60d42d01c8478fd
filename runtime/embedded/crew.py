"""One part of a job with the workers that run it: deployed, spoken to and ended apart from the other parts."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tidegate.ids import Subtask
from tidegate.runtime.embedded.cluster import Cluster, Farewell, Hear
from tidegate.runtime.embedded.deploy import Deployment
from tidegate.runtime.embedded.inbox import Post
from tidegate.runtime.graph.execution_graph import Execution, ExecutionGraph
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.job import StartPoint, Startup
from tidegate.runtime.schedule.regions import parts
from tidegate.runtime.schedule.slots import Slot, memory_shares
from tidegate.runtime.shipping import pack_main_classes, pack_vertices
from tidegate.runtime.task.messages import ToSubtask

__all__ = ["Crew", "Heard", "Said", "crews"]

NewCluster: TypeAlias = Callable[[Hear], Cluster]


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker of a crew said, and to which of its clusters it belonged."""

    crew: Crew
    cluster: Cluster
    message: object


Heard: TypeAlias = "queue.SimpleQueue[object]"
"""What workers say, and whatever else the coordinator's thread shall hear in turn."""


class Crew:
    """A part and its workers; has a new cluster, and new attempts of its subtasks, for each deployment."""

    def __init__(
        self,
        number: int,
        slots: Mapping[Subtask, Slot],
        job: JobGraph,
        executions: ExecutionGraph,
        new_cluster: NewCluster,
        heard: Heard,
    ) -> None:
        self.number = number
        self.slots = slots
        self.executions: list[Execution] = []
        self.start_point: StartPoint | None = None
        self._parts: list[Deployment] = []
        self._job = job
        self._attempts = executions
        self._new_cluster = new_cluster
        self._heard = heard
        self._cluster: Cluster | None = None

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
            ConfigError: something the user wrote cannot be sent to them.
        """
        self.start_point = start
        self.executions = self._attempts.attempt(self.slots)
        self._parts = self._deployments(startup, start)
        cluster = self._cluster = self._new_cluster(
            lambda message: self._heard.put(Said(self, cluster, message))
        )
        cluster.start(workers)

    def deploy(self) -> None:
        """Give its workers, which are all ready, what they shall run."""
        if self._cluster is not None:
            self._cluster.deploy(self._parts)
            for execution in self.executions:
                execution.become("deploying")

    @property
    def deployed(self) -> bool:
        """Whether its subtasks hear what they are told."""
        return bool(self.executions) and all(
            each.state in ("deploying", "running") for each in self.executions
        )

    def opened(self, worker: int) -> None:
        """A worker runs what it was given."""
        for execution in self.executions:
            if execution.slot.task_manager == worker:
                execution.become("running")

    def failed(self, subtasks: list[Subtask]) -> None:
        """These subtasks cannot go on."""
        for execution in self.executions:
            if execution.id.subtask in subtasks:
                execution.end("failed")

    def heeds(self, said: Said) -> bool:
        """Whether it was said by one of its present workers."""
        return said.cluster is self._cluster

    def post(self, subtask: Subtask, message: ToSubtask) -> None:
        """Send a message to a subtask; lost if its worker is not there, or not deployed yet."""
        if self._cluster is not None and self.deployed:
            self._cluster.post(self.slots[subtask].task_manager, Post(subtask, message))

    def ping(self, worker: int) -> None:
        """Have one of its workers say that it lives."""
        if self._cluster is not None:
            self._cluster.ping(worker)

    def close(self, how: Farewell, outcome: Literal["finished", "canceled"] = "canceled") -> None:
        """End all of its workers; those that have not failed come to this end."""
        if self._cluster is not None:
            self._cluster.close(how)
            self._cluster = None
        for execution in self.executions:
            execution.end(outcome)

    def _deployments(self, startup: Startup, start: StartPoint) -> list[Deployment]:
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
                run=startup.run,
                attempt=self.executions[0].id.label,
                storage=startup.storage,
                backend=startup.backend,
                options=startup.program.options,
                memory=memory_shares(self._job, self.slots),
            )
            for worker in self.workers
        ]


def crews(
    job: JobGraph,
    executions: ExecutionGraph,
    slots: Mapping[Subtask, Slot],
    new_cluster: NewCluster,
    heard: Heard,
    *,
    apart: bool,
) -> list[Crew]:
    """A crew for each part of a job, or one for all of it."""
    places = {subtask: slot.task_manager for subtask, slot in slots.items()}
    groups = parts(job, places) if apart else [frozenset(slots)]
    return [
        Crew(number, {s: slots[s] for s in slots if s in group}, job, executions, new_cluster, heard)
        for number, group in enumerate(groups)
    ]
