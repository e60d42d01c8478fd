"""Requests to a running job: stop, savepoint, cancel; unfulfilled ones are repeated after a restart.

Example:
    >>> requests, queue = Requests("orders"), SimpleQueue()
    >>> requests.ask(StopRequested())
    >>> requests.deliver_to(queue)
    >>> queue.get().words
    'stop'
"""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeAlias

from tidegate.errors import JobCancelledError
from tidegate.runtime.checkpoint.orders import SavepointOrder
from tidegate.runtime.checkpoint.protocol import How

__all__ = ["CancelRequested", "Request", "Requests", "SavepointRequested", "StopRequested"]


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Take a final checkpoint and end; optionally with a savepoint, and with event time advanced to its end."""

    order: SavepointOrder | None = None
    drain: bool = False
    for_good: bool = False
    """Whether the next start has no state, as after a cancellation."""

    @property
    def words(self) -> str:
        """The text for the event log."""
        return "stop"


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """Write a savepoint and keep running."""

    order: SavepointOrder

    @property
    def words(self) -> str:
        """The text for the event log."""
        return f"savepoint {self.order.place}"


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """End at once, without a final checkpoint."""

    @property
    def words(self) -> str:
        """The text for the event log."""
        return "cancel"


Request: TypeAlias = StopRequested | CancelRequested | SavepointRequested


class Requests:
    """The requests to the job `name`; each attempt receives those that are not fulfilled."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: list[Request] = []
        self._queue: SimpleQueue[Any] | None = None

    def ask(self, request: Request) -> None:
        """Pass a request to the current attempt and later ones; may be called by any thread and by a signal handler."""
        self._asked.append(request)
        if self._queue is not None:
            self._queue.put(request)

    def deliver_to(self, queue: SimpleQueue[Any]) -> None:
        """Deliver requests to the queue of a new attempt from now on, first the unfulfilled ones."""
        self._queue = queue
        for request in filter(None, map(_unfulfilled, self._asked)):
            queue.put(request)

    def ended(self, how: How) -> How:
        """How the job has ended.

        Raises:
            JobCancelledError: it was cancelled after a savepoint.
        """
        if how == "stop" and any(isinstance(each, StopRequested) and each.for_good for each in self._asked):
            raise JobCancelledError(f"job {self._name!r} was cancelled after a savepoint")
        return how


def _unfulfilled(request: Request) -> Request | None:
    """The part of a request that a new attempt must fulfil: a written savepoint is not repeated, a stop is."""
    match request:
        case SavepointRequested(order) if order.taken.done():
            return None
        case StopRequested(order=order) if order is not None and order.taken.done():
            return StopRequested(for_good=request.for_good)
    return request
