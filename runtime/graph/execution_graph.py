"""Execution graph: every subtask of a job, and each attempt to run it.

Running a subtask is an `Execution`: after a failure there is a new one, and its id distinguishes messages and files of
different attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from tidegate.clock import new_id
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.schedule.slots import Slot
from tidegate.runtime.schedule.states import TaskState, task_after

__all__ = ["Execution", "ExecutionAttemptID", "ExecutionGraph", "ExecutionVertex"]


class ExecutionAttemptID(msgspec.Struct, frozen=True, order=True):
    """Id of one attempt to run one subtask; never used twice.

    Example:
        >>> str(ExecutionAttemptID("1f0c", Subtask("totals", 1), 2))
        '1f0c-2 totals[1]'
    """

    graph: str
    subtask: Subtask
    attempt: int

    @property
    def label(self) -> str:
        """The part of the id that all subtasks of one attempt share."""
        return f"{self.graph}-{self.attempt}"

    def __str__(self) -> str:
        return f"{self.label} {self.subtask}"


@dataclass(slots=True)
class Execution:
    """One attempt to run a subtask in a slot."""

    id: ExecutionAttemptID
    slot: Slot
    state: TaskState = "scheduled"

    def become(self, state: TaskState) -> None:
        """Change to a state that is allowed after the current one."""
        self.state = task_after(self.state, state)

    def end(self, state: Literal["finished", "canceled", "failed"]) -> None:
        """Change to a final state, unless the execution already has one."""
        if self.state in ("finished", "canceled", "failed"):
            return
        if self.state in ("deploying", "running") and state == "canceled":
            self.become("canceling")
        self.become(state)


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """One subtask and its attempts, the newest last."""

    subtask: Subtask
    executions: list[Execution] = field(default_factory=list)

    @property
    def state(self) -> TaskState:
        """The state of the newest attempt."""
        return self.executions[-1].state if self.executions else "created"


class ExecutionGraph:
    """Every subtask of a job with the attempts of a run, in the order in which they are scheduled."""

    def __init__(self, job: JobGraph) -> None:
        self.id = new_id(8)
        self.vertices = [ExecutionVertex(subtask) for subtask in job.subtasks]

    def attempt(self, slots: Mapping[Subtask, Slot]) -> list[Execution]:
        """Start a new attempt for the subtasks that have a slot."""
        executions = []
        for vertex in self.vertices:
            if vertex.subtask not in slots:
                continue
            name = ExecutionAttemptID(self.id, vertex.subtask, len(vertex.executions) + 1)
            executions.append(Execution(name, slots[vertex.subtask]))
            vertex.executions.append(executions[-1])
        return executions
