"""What a job and its tasks can be doing one after the other."""

from __future__ import annotations

from typing import get_args

import pytest

from tidegate.errors import InternalError
from tidegate.runtime.schedule.states import JobLife, JobState, TaskState, task_after

TRACES: dict[str, list[JobState]] = {
    "finished": ["created", "running", "finished"],
    "restarted": ["created", "running", "failing", "restarting", "created", "running"],
    "a part restarted": ["created", "running", "restarting", "running"],
    "failed": ["created", "running", "failing", "failed"],
    "cancelled": ["created", "running", "cancelling", "canceled"],
    "stopped": ["created", "running", "stopping", "stopped"],
    "suspended and recovered": ["created", "running", "suspended", "created", "running"],
}


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(TRACES["finished"], id="finished", marks=pytest.mark.spec("003/JM-05")),
        pytest.param(TRACES["restarted"], id="restarted", marks=pytest.mark.spec("003/JM-06", "003/JM-08")),
        pytest.param(TRACES["a part restarted"], id="a part restarted", marks=pytest.mark.spec("003/JM-09")),
        pytest.param(TRACES["failed"], id="failed", marks=pytest.mark.spec("003/JM-07", "003/JM-09")),
        pytest.param(TRACES["cancelled"], id="cancelled", marks=pytest.mark.spec("003/JM-10")),
        pytest.param(TRACES["stopped"], id="stopped"),
        pytest.param(TRACES["suspended and recovered"], id="suspended", marks=pytest.mark.spec("003/JM-11")),
    ],
)
def test_a_job_passes_through_its_states(trace: list[JobState]) -> None:
    life = JobLife()

    for state in trace[1:]:
        assert life.become(state)

    assert life.trace == trace
    assert life.over == (trace[-1] in ("finished", "failed", "canceled", "stopped"))


def test_to_become_what_it_is_changes_nothing() -> None:
    life = JobLife()

    assert not life.become("created")
    assert life.trace == ["created"]


@pytest.mark.parametrize("end", ["finished", "failed", "canceled", "stopped"])
def test_nothing_follows_an_end(end: JobState) -> None:
    life = JobLife(["created", end])

    with pytest.raises(InternalError, match=f"a job that is {end} became running; expected nothing"):
        life.become("running")


def test_every_state_of_a_job_can_be_reached() -> None:
    reached = {state for trace in TRACES.values() for state in trace}

    assert reached == set(get_args(JobState))


@pytest.mark.spec("003/JM-19", "003/JM-20")
@pytest.mark.parametrize(
    "trace",
    [
        ["created", "scheduled", "deploying", "running", "finished"],
        ["created", "scheduled", "deploying", "running", "canceling", "canceled"],
        ["created", "scheduled", "deploying", "failed"],
        ["created", "scheduled", "canceled"],
    ],
    ids=["finished", "cancelled", "failed", "cancelled before it ran"],
)
def test_a_task_passes_through_its_states(trace: list[TaskState]) -> None:
    state = trace[0]
    for to in trace[1:]:
        state = task_after(state, to)

    with pytest.raises(InternalError, match=f"a task that is {state} became running; expected nothing"):
        task_after(state, "running")


def test_a_task_does_not_run_without_being_deployed() -> None:
    with pytest.raises(InternalError, match="became running; expected deploying or canceled or failed"):
        task_after("scheduled", "running")
