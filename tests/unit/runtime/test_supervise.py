"""How attempts follow one another: restarts by the chosen strategy, and the states that a job passes through."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.runtime.conftest import Step
from tidegate.backends.storage import MemoryStorage
from tidegate.clock import ManualClock
from tidegate.errors import (
    FencedError,
    JobCancelledError,
    JobFailedError,
    TidegateError,
    UnavailableError,
    UserCodeError,
)
from tidegate.ids import PipelineId
from tidegate.options import Layer, load
from tidegate.runtime.job import Program, Startup
from tidegate.runtime.options import JobOptions
from tidegate.runtime.schedule.restart import RestartStrategy
from tidegate.runtime.schedule.states import JobState
from tidegate.runtime.status import RunStatus
from tidegate.runtime.supervise import Supervisor

FIXED = {"restart-strategy": "fixed-delay", "restart-strategy.fixed-delay.attempts": 3}
TEN_SECONDS = {"restart-strategy.fixed-delay.delay": "10 s"}
RATE = {
    "restart-strategy": "failure-rate",
    "restart-strategy.failure-rate.max-failures-per-interval": 2,
    "restart-strategy.failure-rate.failure-rate-interval": "1 min",
    "restart-strategy.failure-rate.delay": "10 s",
}


class Job:
    """A program whose attempts end as they are told to, each a second after it began to run."""

    def __init__(self, step: Step, settings: dict[str, Any], ends: list[TidegateError | None]) -> None:
        sink = step("sink", step("source", uid="source"), uid="sink")
        options = load(JobOptions, Layer("program", settings))
        self.clock = ManualClock()
        self.status = RunStatus(self.clock)
        program = Program("job", PipelineId("orders"), (sink,), options, 1)
        self._startup = Startup(program, MemoryStorage(), self.clock, print)
        self._ends = ends
        self.began_s: list[float] = []

    def run(self) -> None:
        self._startup.acquire()
        Supervisor(self._startup, self.clock, self.status, lambda status: None).run(self._attempt)

    def _attempt(self, restart: RestartStrategy) -> Any:
        self.began_s.append(self.clock.monotonic())
        self.status.become("running")
        self.clock.advance(1_000)
        end = self._ends.pop(0)
        if end is not None:
            raise end
        return "finish"


@pytest.fixture
def job(step: Step) -> Callable[..., Job]:
    return lambda settings, *ends: Job(step, settings, list(ends))


def failure() -> TidegateError:
    return UserCodeError("this time")


@pytest.mark.spec("002/AX-48")
def test_three_failures_are_each_followed_by_a_restart_after_ten_seconds_and_the_fourth_is_final(
    job: Callable[..., Job],
) -> None:
    failing = job(FIXED | TEN_SECONDS, *[failure() for _ in range(4)])

    with pytest.raises(JobFailedError, match="job 'job' failed and its restarts are used up: this time"):
        failing.run()

    assert failing.began_s == [0, 11, 22, 33]
    assert failing.status.state == "failed"


@pytest.mark.spec("004/AX-028")
@pytest.mark.parametrize(
    ("settings", "starts"),
    [(FIXED | TEN_SECONDS, 4), (RATE, 3), ({"restart-strategy": "none"}, 1)],
    ids=["fixed-delay", "failure-rate", "none"],
)
def test_a_strategy_says_how_often_a_job_that_always_fails_is_started(
    job: Callable[..., Job], settings: dict[str, Any], starts: int
) -> None:
    failing = job(settings, *[failure() for _ in range(9)])

    with pytest.raises(JobFailedError):
        failing.run()

    assert len(failing.began_s) == starts


def _on_record(text: str) -> TidegateError:
    error = UserCodeError(text)
    error.record = "{'id': 1}"
    return error


def test_a_program_that_says_nothing_outlasts_an_outage_with_longer_and_longer_pauses(
    job: Callable[..., Job],
) -> None:
    outage = [UnavailableError("no broker answers") for _ in range(8)]
    failing = job({"restart-strategy.exponential-delay.jitter-factor": 0.0}, *outage, None)

    failing.run()

    pauses = [b - a - 1 for a, b in pairwise(failing.began_s)]
    assert pauses[:3] == [1, 1.5, 2.25]
    assert sum(pauses) > 45


def test_a_function_that_fails_on_the_same_record_again_is_not_tried_a_third_time(
    job: Callable[..., Job],
) -> None:
    # Another subtask may fail on a record of its own in between.
    failing = job({}, _on_record("broken"), _on_record("other"), _on_record("broken"))

    with pytest.raises(
        JobFailedError, match="'job' failed twice on the same record with the same error: broken"
    ):
        failing.run()


def test_other_records_and_a_strategy_that_the_user_chose_are_tried_again(job: Callable[..., Job]) -> None:
    others = job(
        {}, _on_record("record 1"), _on_record("record 2"), UserCodeError("open"), UserCodeError("open"), None
    )
    chosen = job(FIXED, *[_on_record("broken") for _ in range(3)], None)

    others.run()
    chosen.run()

    assert (len(others.began_s), len(chosen.began_s)) == (5, 4)


def test_failures_far_enough_apart_are_within_the_rate(job: Callable[..., Job]) -> None:
    settings = RATE | {"restart-strategy.failure-rate.failure-rate-interval": "15 s"}
    failing = job(settings, *[failure() for _ in range(5)], None)

    failing.run()

    assert len(failing.began_s) == 6


@pytest.mark.spec("004/AX-042")
@pytest.mark.parametrize(
    ("ends", "trace"),
    [
        ([None], ["created", "running", "finished"]),
        (
            [failure(), None],
            ["created", "running", "failing", "restarting", "created", "running", "finished"],
        ),
        (
            [failure()] * 2,
            ["created", "running", "failing", "restarting", "created", "running", "failing", "failed"],
        ),
        ([JobCancelledError("enough")], ["created", "running", "cancelling", "canceled"]),
        ([FencedError("somebody else")], ["created", "running", "suspended"]),
    ],
    ids=["finished", "restarted", "failed", "canceled", "suspended"],
)
def test_a_job_passes_through_the_states_of_what_happens_to_it(
    job: Callable[..., Job], ends: list[TidegateError | None], trace: list[JobState]
) -> None:
    settings = {"restart-strategy.fixed-delay.attempts": 1}
    traced = job(settings, *ends)

    with contextlib.nullcontext() if ends[-1] is None else pytest.raises(TidegateError):
        traced.run()

    assert traced.status.life.trace == trace
