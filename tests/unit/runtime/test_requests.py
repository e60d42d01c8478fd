"""What is asked of a job reaches the attempt that runs and, as far as it is still to be done, the next one."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from tidegate.errors import JobCancelledError
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.requests import CancelRequested, Request, Requests, SavepointRequested, StopRequested


def heard_after(*asked: Request) -> list[Request]:
    """What an attempt hears that begins after all was asked."""
    requests, queue = Requests("orders"), SimpleQueue[Any]()
    for request in asked:
        requests.ask(request)
    requests.deliver_to(queue)
    return [queue.get() for _ in range(queue.qsize())]


def order(*, written: bool) -> SavepointOrder:
    made = SavepointOrder("/savepoints/one", "canonical")
    if written:
        made.taken.set_result(made.place)
    return made


def test_an_attempt_hears_what_was_asked_before_and_what_is_asked_meanwhile() -> None:
    requests, queue = Requests("orders"), SimpleQueue[Any]()
    requests.ask(SavepointRequested(order(written=False)))
    requests.deliver_to(queue)
    requests.ask(CancelRequested())

    assert [queue.get().words for _ in range(2)] == ["savepoint /savepoints/one", "cancel"]


def test_a_savepoint_that_is_written_is_not_asked_for_again() -> None:
    assert heard_after(SavepointRequested(order(written=True))) == []


def test_a_stop_stays_one_when_its_savepoint_is_written() -> None:
    stop = StopRequested(order(written=True), drain=True, for_good=True)

    assert heard_after(stop) == [StopRequested(for_good=True)]


def test_what_is_stopped_for_good_is_cancelled() -> None:
    requests = Requests("orders")
    requests.ask(StopRequested(for_good=True))

    with pytest.raises(JobCancelledError, match="job 'orders' was cancelled after a savepoint"):
        requests.ended("stop")
    assert requests.ended("finish") == "finish"
