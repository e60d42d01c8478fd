"""What a job and its tasks cannot be doing one after the other; what they do is seen in real jobs."""

from __future__ import annotations

from typing import get_args

import pytest

from tidegate.errors import InternalError
from tidegate.runtime.schedule.states import JobLife, JobState, TaskState, task_after


def test_to_become_what_it_is_changes_nothing() -> None:
    life = JobLife()

    assert not life.become("created")
    assert life.trace == ["created"]


@pytest.mark.parametrize("end", ["finished", "failed", "canceled", "stopped"])
def test_nothing_follows_an_end(end: JobState) -> None:
    life = JobLife(["created", end])
    assert life.over

    with pytest.raises(InternalError, match=f"invalid job state change from {end} to running; expected none"):
        life.become("running")


@pytest.mark.parametrize("end", ["finished", "canceled", "failed"])
def test_nothing_follows_the_end_of_a_task(end: TaskState) -> None:
    for to in get_args(TaskState):
        with pytest.raises(
            InternalError, match=f"invalid task state change from {end} to {to}; expected none"
        ):
            task_after(end, to)


def test_a_task_does_not_run_without_being_deployed() -> None:
    with pytest.raises(InternalError, match=r"from .* to running; expected deploying or canceled or failed"):
        task_after("scheduled", "running")
