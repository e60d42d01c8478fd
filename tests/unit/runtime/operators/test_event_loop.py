"""Every request that is started is answered once, whatever ends it; what `close` cancels is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.waiting import until
from tidegate.errors import UserCodeError
from tidegate.runtime.operators import event_loop
from tidegate.runtime.operators.event_loop import Answer, AsyncCall, EventLoop

Run = Callable[[], Coroutine[Any, Any, list[Any]]]

SECONDS = 20.0


class Desk:
    """An event loop and the answers it gave."""

    def __init__(self) -> None:
        self.loop = EventLoop()
        self.answers: list[Answer] = []

    def start(self, *runs: Run) -> None:
        self.loop.start(AsyncCall(run, self.answers.append) for run in runs)

    def answer(self, run: Run) -> Answer:
        before = len(self.answers)
        self.start(run)
        until(lambda: len(self.answers) > before, SECONDS)
        return self.answers[before]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.loop.close()


async def forever() -> list[Any]:
    await asyncio.Event().wait()
    return []


def raising(error: BaseException) -> Run:
    async def run() -> list[Any]:
        await asyncio.sleep(0)
        raise error

    return run


def test_a_request_that_returns_is_answered_with_its_results(desk: Desk) -> None:
    async def run() -> list[Any]:
        return [1, 2]

    assert desk.answer(run) == [1, 2]


@pytest.mark.parametrize(
    "error",
    [KeyError("a"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
def test_a_request_is_answered_with_whatever_it_raises_and_others_go_on(
    desk: Desk, error: BaseException
) -> None:
    assert desk.answer(raising(error)) is error
    assert desk.answer(raising(LookupError("next"))).args == ("next",)  # type: ignore[union-attr]  # an error


def test_a_request_that_raises_stop_iteration_is_answered(desk: Desk) -> None:
    answer = desk.answer(raising(StopIteration()))

    assert isinstance(answer, RuntimeError)
    assert isinstance(answer.__cause__, StopIteration)


def test_a_request_that_is_cancelled_by_another_is_answered_even_if_it_never_began(desk: Desk) -> None:
    async def cancel_all() -> list[Any]:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return ["cancelled them"]

    desk.start(cancel_all, forever)
    until(lambda: len(desk.answers) == 2, SECONDS)

    assert desk.answers[0] == ["cancelled them"]
    assert isinstance(desk.answers[1], asyncio.CancelledError)


def test_a_loop_that_is_stopped_fails_what_is_under_way(desk: Desk) -> None:
    async def stop() -> list[Any]:
        asyncio.get_running_loop().stop()
        return await forever()

    with pytest.raises(
        UserCodeError, match=r"^the event loop .* RuntimeError: its method stop\(\) was called"
    ):
        raise desk.answer(stop)  # type: ignore[misc]  # an error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_task_that_ends_the_loop_fails_what_is_under_way_and_what_comes_later(
    desk: Desk, error: BaseException
) -> None:
    async def leaves_a_task() -> list[Any]:
        asyncio.get_running_loop().call_soon(throw, error)
        return await forever()

    desk.start(leaves_a_task, forever)
    until(lambda: len(desk.answers) == 2, SECONDS)
    late = desk.answer(forever)

    for answer in (*desk.answers, late):
        assert isinstance(answer, UserCodeError)
        assert type(error).__name__ in str(answer)
        assert answer.__cause__ is error


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tidegate-requests"]


def throw(error: BaseException) -> None:
    raise error


def test_what_close_cancels_is_not_answered_and_the_thread_ends(desk: Desk) -> None:
    started = threading.Event()

    async def run() -> list[Any]:
        started.set()
        try:
            return await forever()
        finally:
            raise SystemExit(3)

    desk.start(run)
    assert started.wait(SECONDS)
    desk.loop.close()

    assert desk.answers == []
    assert not running()


def test_a_request_that_does_not_end_when_it_is_cancelled_does_not_hold_up_close(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "_GRACE_S", 0.05)
    started, release = threading.Event(), threading.Event()

    async def run() -> list[Any]:
        started.set()
        release.wait(SECONDS)
        return []

    desk.start(run)
    assert started.wait(SECONDS)
    with pytest.raises(
        UserCodeError, match=r"^a request of an asynchronous function is still running 0.05 s after"
    ):
        desk.loop.close()
    release.set()
    until(lambda: not running(), SECONDS)
