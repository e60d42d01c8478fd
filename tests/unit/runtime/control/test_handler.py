"""What a run does with commands, whoever runs it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.errors import UnavailableError
from tidegate.ids import PipelineId, RunId
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.client import JobClient
from tidegate.runtime.control import protocol
from tidegate.runtime.control.handler import CommandHandler
from tidegate.runtime.control.restarting import Restarting
from tidegate.runtime.result import JobResult
from tidegate.runtime.status import RunStatus


class Asked:
    """An executor that only notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.orders: list[SavepointOrder] = []

    def run(self) -> JobResult:
        raise AssertionError("it is never run")

    def stop(
        self, order: SavepointOrder | None = None, *, drain: bool = False, for_good: bool = False
    ) -> None:
        self.orders += [order] if order is not None else []
        self.asked.append(("stop", order is not None, drain, for_good))

    def savepoint(self, order: SavepointOrder) -> None:
        self.orders.append(order)
        self.asked.append("savepoint")

    def cancel(self) -> None:
        self.asked.append("cancel")


def desk_of(executor: Asked, *, owns: bool = True) -> tuple[CommandHandler, JobClient]:
    client = JobClient(RunId("ab12"), executor, lambda: "running", "/backups")
    return CommandHandler(client, lambda: owns, RunStatus(ManualClock()).snapshot), client


def outcome(desk: CommandHandler, command: protocol.Question) -> protocol.Answer:
    triggered = desk.answer(command)
    assert isinstance(triggered, protocol.Triggered)
    return desk.answer(protocol.Outcome(triggered.trigger))


def ended(client: JobClient, how: Any) -> None:
    """Let the job end with a result or an error."""

    def run() -> JobResult:
        if isinstance(how, BaseException):
            raise how
        result: JobResult = how
        return result

    with contextlib.suppress(BaseException):
        client.run_to_end(run)


RESULT = JobResult("orders", PipelineId("orders"), RunId("ab12"), "stopped", 7, 0, None, 1.0, None)


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (protocol.Savepoint(), "savepoint"),
        (protocol.Stop(drain=True), ("stop", False, True, False)),
        (protocol.Stop(savepoint=True, for_good=True), ("stop", True, False, True)),
        (protocol.Cancel(), "cancel"),
    ],
    ids=["savepoint", "stop", "for good", "cancel"],
)
def test_a_command_is_passed_on_and_known_by_its_trigger(command: protocol.Question, asked: Any) -> None:
    executor = Asked()
    desk, client = desk_of(executor)

    triggered = desk.answer(command)

    assert executor.asked == [asked]
    assert isinstance(triggered, protocol.Triggered)
    for order in executor.orders:
        order.taken.set_result(order.place)
    ended(client, RESULT)
    done = desk.answer(protocol.Outcome(triggered.trigger))
    assert isinstance(done, protocol.Done)
    assert bool(done.place) is bool(executor.orders)
    assert done.state == ("stopped" if isinstance(command, protocol.Stop) and not command.for_good else None)


def test_an_error_of_the_run_is_the_outcome() -> None:
    executor = Asked()
    desk, client = desk_of(executor)
    ended(client, UnavailableError("the storage is away"))

    assert outcome(desk, protocol.Stop()) == protocol.Refused("UnavailableError", "the storage is away")
    ended_otherwise, other = desk_of(Asked())
    ended(other, KeyboardInterrupt())
    assert outcome(ended_otherwise, protocol.Stop()) == protocol.Refused(
        "InternalError", "the run ended with KeyboardInterrupt: "
    )


def test_a_savepoint_of_a_job_that_fails_meanwhile_is_refused_with_the_reason() -> None:
    desk, client = desk_of(Asked())
    triggered = desk.answer(protocol.Savepoint("/here"))
    assert isinstance(triggered, protocol.Triggered)

    ended(client, UnavailableError("gone"))

    refused = desk.answer(protocol.Outcome(triggered.trigger))
    assert isinstance(refused, protocol.Refused)
    assert refused.text.startswith("no savepoint was written to /here/savepoint-ab12-")
    assert refused.text.endswith("the job has failed: gone")


def test_who_does_not_own_the_pipeline_takes_no_command_and_answers_all_the_same() -> None:
    executor = Asked()
    desk, _ = desk_of(executor, owns=False)

    assert desk.answer(protocol.Stop()) == protocol.Refused(
        "UnavailableError",
        "the job does not own its pipeline yet: it is starting, or is a standby; try again when it runs, "
        "or end its process",
    )
    assert isinstance(desk.answer(protocol.Look()), protocol.Seen)
    assert executor.asked == []


def test_an_unknown_trigger_is_said_to_be_one() -> None:
    desk, _ = desk_of(Asked())

    assert desk.answer(protocol.Outcome("dead")) == protocol.Refused(
        "ConfigError", "unknown trigger 'dead'; expected one that a command to this run returned"
    )


def test_nobody_restarts_what_nobody_offers_to_start_again() -> None:
    restarting = Restarting()
    refused = desk_of(Asked())[0].answer(protocol.Restart())

    assert isinstance(refused, protocol.Refused)
    assert "a restart needs a job that was started by 'tidegate run'" in refused.text
    restarting.offered = True
    restarting.ask()
    assert restarting.asked
