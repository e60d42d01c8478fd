"""What is run: the job graph with every parallel subtask, every piece of data between them, and each attempt.

A vertex of the job graph becomes one `ExecutionVertex` per subtask. What a subtask emits over an edge is a result
partition; each subtask that takes from it does so over an `ExecutionEdge`. Running a subtask is an `Execution`: after
a failure there is another one, so messages and files are told apart by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from tidegate.clock import new_id
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import IntermediateDataSet, JobEdge, JobGraph, JobVertex
from tidegate.runtime.schedule.slots import Slot
from tidegate.runtime.schedule.states import TaskState, task_after

__all__ = [
    "Execution",
    "ExecutionAttemptID",
    "ExecutionEdge",
    "ExecutionGraph",
    "ExecutionJobVertex",
    "ExecutionVertex",
    "IntermediateResult",
    "IntermediateResultPartition",
]


class ExecutionAttemptID(msgspec.Struct, frozen=True, order=True):
    """Names one attempt to run one subtask; never used twice.

    Example:
        >>> str(ExecutionAttemptID("1f0c", Subtask("totals", 1), 2))
        '1f0c-2 totals[1]'
    """

    graph: str
    subtask: Subtask
    attempt: int

    @property
    def label(self) -> str:
        """What all subtasks of one attempt have in common."""
        return f"{self.graph}-{self.attempt}"

    def __str__(self) -> str:
        return f"{self.label} {self.subtask}"


@dataclass(slots=True)
class Execution:
    """One attempt to run a subtask, and where; it begins with a slot."""

    id: ExecutionAttemptID
    slot: Slot
    state: TaskState = "scheduled"

    def become(self, state: TaskState) -> None:
        """Go on to a state that may follow the present one."""
        self.state = task_after(self.state, state)

    def end(self, state: Literal["finished", "canceled", "failed"]) -> None:
        """Come to an end, if it has not yet."""
        if self.state in ("finished", "canceled", "failed"):
            return
        if self.state in ("deploying", "running") and state == "canceled":
            self.become("canceling")
        self.become(state)


@dataclass(frozen=True, slots=True)
class ExecutionEdge:
    """One subtask takes from one result partition: that of `source` in a data set."""

    data_set: str
    source: Subtask
    target: Subtask


@dataclass(frozen=True, slots=True)
class IntermediateResultPartition:
    """What one subtask emits over one edge of the job graph, and who takes it."""

    data_set: str
    producer: Subtask
    consumers: tuple[ExecutionEdge, ...]


@dataclass(frozen=True, slots=True)
class IntermediateResult:
    """A data set of the job graph: one partition for each subtask of its producer."""

    data_set: IntermediateDataSet
    partitions: tuple[IntermediateResultPartition, ...]


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """One subtask: what it takes, what it emits, and its attempts, the newest last."""

    subtask: Subtask
    inputs: tuple[ExecutionEdge, ...]
    partitions: tuple[IntermediateResultPartition, ...]
    executions: list[Execution] = field(default_factory=list)

    @property
    def current(self) -> Execution | None:
        """The newest attempt."""
        return self.executions[-1] if self.executions else None

    @property
    def prior(self) -> list[Execution]:
        """The attempts before, the oldest first."""
        return self.executions[:-1]

    @property
    def state(self) -> TaskState:
        """What the task is doing."""
        return self.current.state if self.current is not None else "created"


@dataclass(frozen=True, slots=True)
class ExecutionJobVertex:
    """A vertex of the job graph with its subtasks and what they emit."""

    job_vertex: JobVertex
    vertices: tuple[ExecutionVertex, ...]
    results: tuple[IntermediateResult, ...]


class ExecutionGraph:
    """All vertices by id, upstream before downstream; keeps the attempts of a run."""

    def __init__(self, job: JobGraph) -> None:
        self.id = new_id(8)
        self.job_vertices = {vertex.id: _expand(vertex) for vertex in job.vertices.values()}

    @property
    def vertices(self) -> list[ExecutionVertex]:
        """Every subtask, in the order in which they are scheduled."""
        return [vertex for each in self.job_vertices.values() for vertex in each.vertices]

    def attempt(self, slots: Mapping[Subtask, Slot]) -> list[Execution]:
        """Begin another attempt to run the subtasks that are given a slot."""
        executions = []
        for vertex in self.vertices:
            if vertex.subtask not in slots:
                continue
            name = ExecutionAttemptID(self.id, vertex.subtask, len(vertex.executions) + 1)
            executions.append(Execution(name, slots[vertex.subtask]))
            vertex.executions.append(executions[-1])
        return executions


def _expand(vertex: JobVertex) -> ExecutionJobVertex:
    results = tuple(
        IntermediateResult(
            data_set, tuple(_partition(data_set.consumer, index) for index in range(vertex.parallelism))
        )
        for data_set in vertex.data_sets
    )
    vertices = tuple(
        ExecutionVertex(
            subtask,
            tuple(
                _edge(edge, source, subtask.index)
                for edge in vertex.inputs
                for source in edge.reaching(subtask.index)
            ),
            tuple(result.partitions[subtask.index] for result in results),
        )
        for subtask in vertex.subtasks
    )
    return ExecutionJobVertex(vertex, vertices, results)


def _partition(edge: JobEdge, index: int) -> IntermediateResultPartition:
    consumers = tuple(_edge(edge, index, target) for target in edge.reached_from(index))
    return IntermediateResultPartition(edge.name, Subtask(edge.source, index), consumers)


def _edge(edge: JobEdge, source: int, target: int) -> ExecutionEdge:
    return ExecutionEdge(edge.name, Subtask(edge.source, source), Subtask(edge.target, target))
