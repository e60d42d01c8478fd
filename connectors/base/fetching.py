"""Source reader for blocking clients: threads fetch; the subtask takes fetched records without blocking.

An author writes a `Fetcher`, three short methods that may block. Threads, hand-over, positions, pausing and back-pressure
are here. Guarantee: that of the positions; a checkpoint excludes records that were fetched and not polled; they are fetched again.

Example:
    >>> from tidegate.clock import SYSTEM_CLOCK
    >>> from tidegate.connectors.base.ranges import RangeSplit
    >>> from tidegate.connectors.spi import Finished
    >>> from tidegate.ids import OperatorUid, Subtask
    >>> class Letters(Fetcher[RangeSplit]):
    ...     def fetch(self, splits):
    ...         for split in splits:
    ...             part, rest = split.cut(2)
    ...             numbers = part.head(2)
    ...             yield Fetched(split, ["abcde"[number] for number in numbers], numbers, rest)
    ...     def wake_up(self):
    ...         pass
    >>> def after(split, number):
    ...     return split.after(range(split.next, number + 1))
    >>> context = ReaderContext(OperatorUid("letters"), Subtask("letters", 0), 1, SYSTEM_CLOCK)
    >>> reader = FetchingReader(Letters, after, context)
    >>> reader.add_splits([RangeSplit(SplitId("a"), 0, 5)])
    >>> reader.no_more_splits()
    >>> letters = []
    >>> while not isinstance(found := reader.poll(3), Finished):
    ...     letters += found.values if isinstance(found, Batch) else []
    >>> letters
    ['a', 'b', 'c', 'd', 'e']
    >>> reader.close()
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Generic, TypeVar

from tidegate.connectors.base.fetch_queue import Fetched, FetchQueue
from tidegate.connectors.base.idleness import Idleness
from tidegate.connectors.spi import NotYet, Poll, ReaderContext, SourceReader, Split
from tidegate.elements import Batch
from tidegate.errors import TidegateError, UserCodeError
from tidegate.failures import failure_of
from tidegate.ids import CheckpointId, SplitId

__all__ = ["Fetcher", "FetchingReader"]

S = TypeVar("S", bound=Split)

_PAUSE_MS: Final = 10
"""When to poll again if `wake` has no listener."""

_GRACE_S: Final = 10.0


class Fetcher(ABC, Generic[S]):
    """Fetches records from the external system. Created, used and closed by one dedicated thread, except for `wake_up`."""

    @abstractmethod
    def fetch(self, splits: Sequence[S]) -> Iterable[Fetched[S]]:
        """The next records of any of these splits, from the positions they carry.

        Waits until there are some, or as long as it likes. Called again and again, each time with the splits to read
        now: new ones come, those that are paused or of which enough waits are missing for a while.

        Raises:
            UnavailableError: the system did not answer; the subtask fails and is restored.
            RecordError: a record cannot be read.
        """

    @abstractmethod
    def wake_up(self) -> None:
        """Let the `fetch` that runs return soon, or else the next one. Called by other threads; must not block."""

    def close(self) -> None:
        """Release resources; called once, also after an error."""


class FetchingReader(SourceReader[S]):
    """Hands over what its fetchers bring.

    Args:
        open_fetcher: Makes a fetcher; may connect. Called by each thread.
        after: The split after its record at a position; pure. Called when a batch takes only some of a fetch.
        context: Who the reader is.
        thread_per_split: Whether each split has a thread and a fetcher of its own; otherwise one serves all of them.
        depth: How many fetches of one split may wait to be polled.
    """

    def __init__(
        self,
        open_fetcher: Callable[[], Fetcher[S]],
        after: Callable[[S, int], S],
        context: ReaderContext,
        *,
        thread_per_split: bool = False,
        depth: int = 2,
    ) -> None:
        self._open_fetcher = open_fetcher
        self._context = context
        self._thread_per_split = thread_per_split
        self._shared = _Shared[S](FetchQueue(after, depth), context.wake)
        self._threads: list[_FetchThread[S]] = []
        self._idleness = Idleness()

    def add_splits(self, splits: Sequence[S]) -> None:
        """Take splits; a thread begins to fetch."""
        self._shared.change(lambda queue: queue.add(splits))
        if self._thread_per_split:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            for split in splits:
                self._start(split.id)
        elif splits and not self._threads:
            self._start(None)

    def no_more_splits(self) -> None:
        """Finish when the assigned splits are read."""
        self._idleness.complete = True

    def poll(self, limit: int) -> Poll:
        """What was fetched by now.

        Raises:
            TidegateError: a fetcher failed, and everything it fetched before was polled.
        """
        if self._idleness.reported and self._shared.states() and (ended := self._idleness.ended()):
            return ended
        failed = self._shared.failed  # looked at first, because a thread may bring something and then fail
        batch = self._shared.take(limit)
        if batch is not None:
            return batch
        if failed is not None:
            error, splits = failed
            raise self._failure(error, splits) from error
        if self._shared.states():
            return NotYet(_PAUSE_MS)
        return self._idleness.poll()

    def unfinished_splits(self) -> list[SplitId]:
        """The splits that are not read to their end."""
        return [split.id for split in self._shared.states()]

    def pause(self, splits: Collection[SplitId]) -> None:
        """Leave these out, and fetch no more of them."""
        self._shared.change(lambda queue: queue.pause(splits))

    def snapshot(self, checkpoint: CheckpointId) -> list[S]:
        """The splits after the polled records."""
        return self._shared.states()

    def close(self) -> None:
        """End the threads.

        Raises:
            UserCodeError: a fetcher does not return although it was woken up.
        """
        self._shared.close()
        for thread in self._threads:
            thread.join(_GRACE_S)
        if any(thread.is_alive() for thread in self._threads):
            raise UserCodeError(
                f"source {self._context.uid!r}: a fetcher is still fetching {_GRACE_S:g} s after wake_up; "
                "expected fetch to return; interrupt the blocking call in wake_up"
            )

    def _start(self, split: SplitId | None) -> None:
        thread = _FetchThread(self._open_fetcher, self._shared, split)
        self._threads.append(thread)
        thread.start()

    def _failure(self, error: BaseException, splits: Sequence[SplitId]) -> TidegateError:
        doing = f"fetching {', '.join(map(repr, splits))}" if splits else "opening a fetcher"
        where = f"source {self._context.uid!r} (subtask {self._context.subtask})"
        return failure_of(f"{where} failed in {doing}", error)


class _Shared(Generic[S]):
    """The queue between the threads and the subtask, and which fetches run."""

    def __init__(self, queue: FetchQueue[S], wake: Callable[[], None]) -> None:
        self._queue = queue
        self._wake = wake
        self._changed = threading.Condition()
        self._fetching: set[_FetchThread[S]] = set()
        self._closed = False
        self.failed: tuple[BaseException, list[SplitId]] | None = None
        """The first failure, and what was being fetched."""

    def states(self) -> list[S]:
        """Every split after its taken records."""
        with self._changed:
            return self._queue.states()

    def change(self, act: Callable[[FetchQueue[S]], None]) -> None:
        """Do something to the queue that may make more splits worth fetching."""
        with self._changed:
            act(self._queue)
            self._tell()

    def take(self, limit: int) -> Batch | None:
        """The next records, which makes room."""
        with self._changed:
            batch = self._queue.take(limit)
            self._tell()
            return batch

    def begin(self, thread: _FetchThread[S]) -> list[S]:
        """What the thread shall fetch next, as soon as there is something; nothing if it shall end."""
        with self._changed:
            self._fetching.discard(thread)
            while not self._closed and not thread.done(self._queue):
                if splits := thread.share(self._queue):
                    thread.asked = [split.id for split in splits]
                    self._fetching.add(thread)
                    return splits
                self._changed.wait()
            return []

    def put(self, fetched: Fetched[S]) -> None:
        """Add fetched records and wake the subtask."""
        with self._changed:
            self._queue.put(fetched)
        self._wake()

    def leave(self, thread: _FetchThread[S]) -> None:
        """The thread's fetcher is about to be closed."""
        with self._changed:
            self._fetching.discard(thread)

    def fail(self, error: BaseException, splits: list[SplitId]) -> None:
        """A thread ended with an error."""
        with self._changed:
            self.failed = self.failed or (error, splits)
        self._wake()

    def close(self) -> None:
        """Let all threads end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for thread in self._fetching:
                thread.fetcher.wake_up()

    def _tell(self) -> None:
        self._changed.notify_all()
        for thread in self._fetching:
            # A fetch may wait long for splits that are quiet while another one has become worth fetching.
            if any(split.id not in thread.asked for split in thread.share(self._queue)):
                thread.fetcher.wake_up()


class _FetchThread(threading.Thread, Generic[S]):
    """Fetches one split, or all of them if `only` is None."""

    fetcher: Fetcher[S]

    def __init__(
        self, open_fetcher: Callable[[], Fetcher[S]], shared: _Shared[S], only: SplitId | None
    ) -> None:
        super().__init__(daemon=True, name="tidegate-fetch")
        self._open_fetcher = open_fetcher
        self._shared = shared
        self._only = only
        self.asked: list[SplitId] = []

    def share(self, queue: FetchQueue[S]) -> list[S]:
        """The wanted splits that are this thread's."""
        return queue.wanted(self._only)

    def done(self, queue: FetchQueue[S]) -> bool:
        """Whether there will never be anything for it."""
        return self._only is not None and queue.ended(self._only)

    def run(self) -> None:
        """Fetch until stopped; a failure is stored for the subtask."""
        try:
            with contextlib.closing(self._open_fetcher()) as self.fetcher:
                try:
                    self._fetch()
                finally:
                    self._shared.leave(self)
        except BaseException as error:
            self._shared.fail(error, self.asked)

    def _fetch(self) -> None:
        while splits := self._shared.begin(self):
            for fetched in self.fetcher.fetch(splits):
                self._shared.put(fetched)
