"""States of a job and of its tasks, with the permitted changes. Pure.

A job whose failure concerns all of it is failing until its last task has ended, then restarting, then created again.
If only a part fails and comes back, the job is restarting meanwhile and then runs on. Stopping and stopped are a
running job that takes its last checkpoint on request, and one that has.

Example:
    >>> life = JobLife()
    >>> [life.become(state) for state in ("running", "finished")]
    [True, True]
    >>> life.trace
    ['created', 'running', 'finished']
    >>> task_after("created", "scheduled")
    'scheduled'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tidegate.errors import InternalError

__all__ = ["JobLife", "JobState", "TaskState", "task_after"]

JobState: TypeAlias = Literal[
    "created",
    "running",
    "failing",
    "restarting",
    "stopping",
    "cancelling",
    "finished",
    "stopped",
    "canceled",
    "failed",
    "suspended",
]

TaskState: TypeAlias = Literal[
    "created", "scheduled", "deploying", "running", "finished", "canceling", "canceled", "failed"
]

_JOB: Final[dict[JobState, tuple[JobState, ...]]] = {
    "created": ("running", "restarting", "stopping", "finished", "failing", "cancelling", "suspended"),
    "running": ("finished", "stopping", "failing", "restarting", "cancelling", "suspended"),
    "stopping": ("stopped", "finished", "failing", "cancelling", "suspended"),
    "failing": ("failed", "restarting", "cancelling", "suspended"),
    "restarting": ("created", "running", "stopping", "failing", "cancelling", "suspended"),
    "cancelling": ("canceled", "failed", "suspended"),
    "suspended": ("created",),
    "finished": (),
    "stopped": (),
    "canceled": (),
    "failed": (),
}

_TASK: Final[dict[TaskState, tuple[TaskState, ...]]] = {
    "created": ("scheduled", "canceled", "failed"),
    "scheduled": ("deploying", "canceled", "failed"),
    "deploying": ("running", "canceling", "failed"),
    "running": ("finished", "canceling", "failed"),
    "canceling": ("canceled", "failed"),
    "finished": (),
    "canceled": (),
    "failed": (),
}


@dataclass(slots=True)
class JobLife:
    """The states of one run, the last one being the present."""

    trace: list[JobState] = field(default_factory=lambda: ["created"])

    @property
    def state(self) -> JobState:
        """What the job is doing."""
        return self.trace[-1]

    @property
    def over(self) -> bool:
        """Whether nothing can follow, so that what the run occupies can be given up."""
        return not _JOB[self.state]

    def become(self, state: JobState) -> bool:
        """Go on to a state; False if it is the present one."""
        if state == self.state:
            return False
        if state not in _JOB[self.state]:
            raise InternalError(
                f"invalid job state change from {self.state} to {state}; expected {_or(_JOB[self.state])}; please report this"
            )
        self.trace.append(state)
        return True


def task_after(state: TaskState, to: TaskState) -> TaskState:
    """The state `to`, if a task may come to it from `state`."""
    if to not in _TASK[state]:
        raise InternalError(
            f"invalid task state change from {state} to {to}; expected {_or(_TASK[state])}; please report this"
        )
    return to


def _or(states: tuple[str, ...]) -> str:
    return " or ".join(states) or "none, because it is a final state"
