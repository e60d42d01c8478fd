"""The order in which answers to requests leave: pure queues of requests, and of watermarks and
idleness as marks between them.

A queue holds everything that has not left yet, answered or not; what it holds is the operator's state. Nothing a
queue hands out goes past a mark, in either direction.

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
    """A record somebody is asked about, and the answer once it is there."""

    value: Any
    timestamp: int | None = None
    results: list[Any] | None = None


Mark: TypeAlias = Watermark | Idle
"""What keeps its place between records."""

Entry: TypeAlias = Request | Mark


class RequestQueue(Protocol):
    """What the operator needs; it knows nothing of order."""

    def add(self, entry: Entry) -> None:
        """Put a record or mark behind all that came before."""
        ...

    def complete(self, request: Request, results: list[Any]) -> None:
        """The answer to a request is there."""
        ...

    def take(self) -> list[Entry]:
        """Remove and return what may leave now, in order."""
        ...

    def entries(self) -> list[Entry]:
        """All that has not left, answered or not."""
        ...

    def __len__(self) -> int:
        """How many requests have not left."""
        ...


class OrderedQueue:
    """Answers leave in the order of the records: one that is early waits for all before it."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._requests = 0

    def __len__(self) -> int:
        return self._requests

    def add(self, entry: Entry) -> None:
        """Put a record or mark behind all that came before."""
        self._entries.append(entry)
        self._requests += isinstance(entry, Request)

    def complete(self, request: Request, results: list[Any]) -> None:
        """The answer to a request is there."""
        request.results = results

    def take(self) -> list[Entry]:
        """Remove and return the answered head of the queue."""
        taken: list[Entry] = []
        while self._entries:
            head = self._entries[0]
            if isinstance(head, Request) and head.results is None:
                break
            taken.append(self._entries.popleft())
            self._requests -= isinstance(head, Request)
        return taken

    def entries(self) -> list[Entry]:
        """All that has not left, answered or not."""
        return list(self._entries)


class UnorderedQueue:
    """Answers leave as they come, but only between the marks that were around their records.

    Requests between two marks form a set. Only those of the first set can leave; a mark leaves when all sets before
    it are empty. Without marks, as in processing time, there is one set and the first answer is the first to leave.
    """

    def __init__(self) -> None:
        self._sets: deque[dict[int, Request] | Mark] = deque([{}])
        self._done: list[Entry] = []
        self._requests = 0

    def __len__(self) -> int:
        return self._requests

    def add(self, entry: Entry) -> None:
        """Put a record into the last set, or a mark and a new set behind it."""
        if isinstance(entry, Request):
            last = self._sets[-1]
            assert isinstance(last, dict)  # a set follows every mark
            last[id(entry)] = entry
            self._requests += 1
        else:
            self._sets += [entry, {}]
            self._advance()

    def complete(self, request: Request, results: list[Any]) -> None:
        """The answer to a request is there; it leaves if its set is the first."""
        request.results = results
        first = self._sets[0]
        if isinstance(first, dict) and first.pop(id(request), None) is not None:
            self._done.append(request)
            self._advance()

    def take(self) -> list[Entry]:
        """Remove and return what is answered in the order of the answers, and the marks they held up."""
        taken, self._done = self._done, []
        self._requests -= sum(isinstance(entry, Request) for entry in taken)
        return taken

    def entries(self) -> list[Entry]:
        """All that has not left, answered or not."""
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
