"""Queues that order the results of asynchronous requests. Watermarks and changes of idleness are marks
between requests. Pure: no I/O, no threads.

A queue holds every request that was not emitted, completed or not; its content is the operator's state. No result
passes a mark, in either direction.

Example:
    >>> queue = OrderedQueue()
    >>> first, second = Request("a"), Request("b")
    >>> queue.add(first), queue.add(second)
    (None, None)
    >>> queue.complete(second, ["B"])
    >>> queue.take()
    []
    >>> queue.complete(first, ["A"])
    >>> [request.results for request in queue.take()]
    [['A'], ['B']]
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tidegate.elements import Idle, Watermark

__all__ = ["Entry", "Mark", "OrderedQueue", "Request", "RequestQueue", "UnorderedQueue"]


@dataclass(slots=True, eq=False)
class Request:
    """A record that a request was made for, and the results once they arrived."""

    value: Any
    timestamp: int | None = None
    results: list[Any] | None = None


Mark: TypeAlias = Watermark | Idle
"""A watermark or change of idleness; it keeps its place between records."""

Entry: TypeAlias = Request | Mark


class RequestQueue(Protocol):
    """The interface of both queues, used by the operator."""

    def add(self, entry: Entry) -> None:
        """Append a record or mark."""
        ...

    def complete(self, request: Request, results: list[Any]) -> None:
        """Store the results of a request."""
        ...

    def take(self) -> list[Entry]:
        """Remove and return the entries that can be emitted now, in order."""
        ...

    def entries(self) -> list[Entry]:
        """All entries that were not emitted, completed or not."""
        ...

    def __len__(self) -> int:
        """The number of requests that were not emitted."""
        ...


class OrderedQueue:
    """Results are emitted in the order of the records: an early result waits for all before it."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._requests = 0

    def __len__(self) -> int:
        return self._requests

    def add(self, entry: Entry) -> None:
        """Append a record or mark."""
        self._entries.append(entry)
        self._requests += isinstance(entry, Request)

    def complete(self, request: Request, results: list[Any]) -> None:
        """Store the results of a request."""
        request.results = results

    def take(self) -> list[Entry]:
        """Remove and return the completed head of the queue."""
        taken: list[Entry] = []
        while self._entries:
            head = self._entries[0]
            if isinstance(head, Request) and head.results is None:
                break
            taken.append(self._entries.popleft())
            self._requests -= isinstance(head, Request)
        return taken

    def entries(self) -> list[Entry]:
        """All entries that were not emitted, completed or not."""
        return list(self._entries)


class UnorderedQueue:
    """Results are emitted as they arrive, but only between the marks around their records.

    Requests between two marks form a set. Only those of the first set can be emitted; a mark is emitted when all sets
    before it are empty. Without marks, as in processing time, there is one set and results are emitted as they arrive.
    """

    def __init__(self) -> None:
        self._sets: deque[dict[int, Request] | Mark] = deque([{}])
        self._done: list[Entry] = []
        self._requests = 0

    def __len__(self) -> int:
        return self._requests

    def add(self, entry: Entry) -> None:
        """Add a record to the last set, or a mark and a new set after it."""
        if isinstance(entry, Request):
            last = self._sets[-1]
            assert isinstance(last, dict)  # a set follows every mark
            last[id(entry)] = entry
            self._requests += 1
        else:
            self._sets += [entry, {}]
            self._advance()

    def complete(self, request: Request, results: list[Any]) -> None:
        """Store the results of a request; they can be emitted if its set is the first."""
        request.results = results
        first = self._sets[0]
        if isinstance(first, dict) and first.pop(id(request), None) is not None:
            self._done.append(request)
            self._advance()

    def take(self) -> list[Entry]:
        """Remove and return completed requests in the order of their results, and the marks they blocked."""
        taken, self._done = self._done, []
        self._requests -= sum(isinstance(entry, Request) for entry in taken)
        return taken

    def entries(self) -> list[Entry]:
        """All entries that were not emitted, completed or not."""
        entries = list(self._done)
        for each in self._sets:
            entries += each.values() if isinstance(each, dict) else [each]
        return entries

    def _advance(self) -> None:
        while len(self._sets) > 1 and not self._sets[0]:
            self._sets.popleft()
            mark, following = self._sets.popleft(), self._sets[0]
            assert isinstance(mark, Mark)  # a mark follows every set but the last
            assert isinstance(following, dict)  # a set follows every mark
            self._done.append(mark)
            for request in [each for each in following.values() if each.results is not None]:
                self._done.append(following.pop(id(request)))
