"""The control socket: who may speak, what is answered, and that nothing is left when the run is over."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.clock import ManualClock
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import FencingTerm, PipelineId, RunId
from tidegate.runtime.control import protocol
from tidegate.runtime.control.control_client import ControlClient
from tidegate.runtime.control.jobs import Job
from tidegate.runtime.control.server import listening
from tidegate.runtime.status import RunStatus
from tidegate.twophase.process import this_process


class Answers:
    """Knows one trigger, whose outcome comes when the test says so."""

    def __init__(self) -> None:
        self.outcome: Future[protocol.Answer] = Future()
        self.waiting = threading.Event()

    def __call__(self, question: protocol.Question) -> protocol.Answer:
        match question:
            case protocol.Look():
                return protocol.Seen(RunStatus(ManualClock()).snapshot())
            case protocol.Outcome():
                self.waiting.set()
                return self.outcome.result()
            case protocol.Cancel():
                return protocol.Refused("ConfigError", "a job on Spark cannot be cancelled yet")
        return protocol.Triggered("t1")


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def job(answers: Answers) -> Iterator[Job]:
    with listening(answers, "secret") as path:
        yield described(path)


def described(path: str, token: str = "secret") -> Job:
    run = RunId("ab12")
    process = this_process(FencingTerm(0), run)
    return Job(run, "orders", PipelineId("orders"), "inline", "file:///s", 0, process, path, token)


def test_questions_are_answered_one_after_the_other(job: Job, answers: Answers) -> None:
    answers.outcome.set_result(protocol.Done("/backups/sp-1"))
    with ControlClient(job) as caller:
        assert caller.look().state == "created"
        trigger = caller.trigger(protocol.Savepoint("/backups"))
        assert (trigger, caller.outcome(trigger)) == ("t1", protocol.Done("/backups/sp-1"))


def test_a_refusal_is_raised_where_the_question_was_asked(job: Job) -> None:
    with ControlClient(job) as caller, pytest.raises(ConfigError, match="cannot be cancelled yet"):
        caller.trigger(protocol.Cancel())


def test_somebody_without_the_token_is_answered_nothing(job: Job) -> None:
    with pytest.raises(
        ConfigError, match="the token is not the one of this run; read it from the run's note"
    ):
        ControlClient(msgspec.structs.replace(job, token="guessed"))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(job.socket)
        with stranger.makefile("rwb") as lines:
            lines.write(protocol.encode(protocol.Look()))
            lines.flush()
            assert b"the token is not the one" in lines.readline()
            assert lines.readline() == b"", "and hung up on"


def test_only_its_user_can_reach_the_socket(job: Job) -> None:
    directory = Path(job.socket).parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert directory.stat().st_uid == os.getuid()


@pytest.mark.parametrize(
    "line",
    [b"not json\n", b'{"do":"dance"}\n', b'{"do":"stop","drain":1}\n'],
    ids=["noise", "unknown", "wrong"],
)
def test_what_is_not_understood_is_said_so_and_the_conversation_goes_on(job: Job, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(job.socket)
        with other.makefile("rwb") as lines:
            for each in (protocol.encode(protocol.Hello("secret")), line, protocol.encode(protocol.Look())):
                lines.write(each)
            lines.flush()
            answered: list[Any] = [protocol.decode_answer(lines.readline()) for _ in range(3)]

    assert [type(each) for each in answered] == [protocol.Done, protocol.Refused, protocol.Seen]
    assert "unknown request" in answered[1].text


def test_an_outcome_that_comes_at_the_end_is_still_told(answers: Answers) -> None:
    with listening(answers, "secret") as path:
        caller = ControlClient(described(path))
        told: Future[protocol.Done] = Future()
        thread = threading.Thread(target=lambda: told.set_result(caller.outcome("t1")))
        thread.start()
        assert answers.waiting.wait(10)
        answers.outcome.set_result(protocol.Done("/sp"))
    thread.join()

    assert told.result() == protocol.Done("/sp")
    with pytest.raises(UnavailableError, match=r"job ab12 (ended before it answered|does not answer)"):
        caller.look()
    caller.close()


def test_nothing_is_left_when_the_run_is_over_though_somebody_is_still_connected(answers: Answers) -> None:
    with listening(answers, "secret") as path:
        caller = ControlClient(described(path))
    caller.close()

    assert not Path(path).parent.exists()
    assert [thread.name for thread in threading.enumerate() if thread.name == "tidegate-control"] == []
    with pytest.raises(UnavailableError, match=r"job ab12 cannot be reached: .*; it may have ended just now"):
        ControlClient(described(path))
