"""Tasks of a batch job: a task behind an exchange starts when all its senders have finished, and reads their results.

Input of keyed steps is sorted by key and then by time, so only the state of the current key is in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Protocol

from tidegate.elements import (
    MAX_WATERMARK,
    Barrier,
    Batch,
    BatchCursor,
    Element,
    EndOfInput,
)
from tidegate.errors import InternalError
from tidegate.runtime.checkpoint.protocol import Trigger
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.transformations import Broadcast, Hash
from tidegate.runtime.operators.environment import ChainEnvironment
from tidegate.runtime.task.alignment import Alignment, BarrierArrived, TakeSnapshot
from tidegate.runtime.task.exchange import ChannelId, RecordWriter
from tidegate.runtime.task.messages import Drained, ToSubtask
from tidegate.runtime.task.runner import Report, StreamTask
from tidegate.runtime.task.sorted_input import PIECE, SortedInput

__all__ = ["BlockingTask", "FinishedRunner", "StoredResults"]


class StoredResults(Protocol):
    """The stored results of finished tasks."""

    def batches(self, edge: JobEdge, source: int, target: int) -> Iterator[Batch]:
        """The batches from one subtask to another, in the order written; raises `UnavailableError` if they are lost."""
        ...


class BlockingTask(StreamTask):
    """Waits until every channel is at its end, then processes the results of the senders."""

    def __init__(
        self,
        vertex: JobVertex,
        env: ChainEnvironment,
        gates: dict[str, RecordWriter],
        report: Report,
        background: Executor,
        *,
        channels: list[ChannelId],
        results: StoredResults,
        memory_bytes: int,
    ) -> None:
        super().__init__(vertex, env, gates, report, background)
        self._arrived: deque[tuple[ChannelId, Element]] = deque()
        self._unended = set(channels)
        self._barriers: deque[tuple[ChannelId, Barrier]] = deque()
        self._alignment = Alignment(channels)
        self._results = results
        types = [edge.value_type for edge in vertex.inputs]
        self._sorted = SortedInput(types, env.state.directory, memory_bytes)
        self._work_off = self._released()

    def deliver(self, channel: ChannelId, element: Element) -> None:
        """Accept an element; called by the thread that calls `step`."""
        self._arrived.append((channel, element))

    def close(self) -> None:
        """Close the chain and release the disk space."""
        try:
            super().close()
        finally:
            self._sorted.close()

    def _work(self) -> bool:
        if self._arrived:
            self._take(*self._arrived.popleft())
            return True
        if self._unended:
            return False
        busy = next(self._work_off, None)
        if busy is not None:
            return busy
        if not self._barriers:
            return False
        channel, barrier = self._barriers.popleft()
        for action in self._alignment.on(BarrierArrived(channel, barrier.checkpoint)):
            if isinstance(action, TakeSnapshot):
                self._snapshot(barrier, [])
        return True

    def _take(self, channel: ChannelId, element: Element) -> None:
        """Handle a control element; watermarks and idleness are ignored, because records are read from files afterwards."""
        match element:
            case EndOfInput():
                self._unended.discard(channel)
            case Barrier():
                self._barriers.append((channel, element))

    def _released(self) -> Iterator[bool]:
        """Process the whole input in steps; yields whether each step did something."""
        yield from self._unsorted()
        if self._chain.data.by_key:
            yield from self._by_key()
        self._chain.time.advance_watermark(MAX_WATERMARK)
        while not self._chain.operators.empty():
            yield False
        self._broadcast(EndOfInput())
        yield True

    def _unsorted(self) -> Iterator[bool]:
        """Process the unsorted inputs; broadcast inputs first, so that their state is complete for the other inputs."""
        numbered = enumerate(self._vertex.inputs)
        for number, edge in sorted(numbered, key=lambda each: not isinstance(each[1].partition, Broadcast)):
            for source in edge.reaching(self.subtask.index):
                for batch in self._results.batches(edge, source, self.subtask.index):
                    self.records += len(batch)
                    if self._sorts(edge) and batch.keys is not None:
                        self._sorted.add(number, batch)
                        yield True
                    else:
                        yield from self._pieces(batch, edge.side)

    def _pieces(self, batch: Batch, side: int) -> Iterator[bool]:
        """Process a batch in pieces, so that control messages do not wait."""
        cursor = BatchCursor(batch)
        while cursor:
            self._process_some(cursor.take(self._size.limit), side)
            yield True

    def _sorts(self, edge: JobEdge) -> bool:
        return isinstance(edge.partition, Hash) and self._chain.data.by_key

    def _by_key(self) -> Iterator[bool]:
        sides = [edge.side for edge in self._vertex.inputs]
        done = 0
        for _, batches in self._sorted.by_key():
            for batch, number in batches:
                self._chain.data.process(batch, sides[number])
                done += len(batch)
                if done >= PIECE or not self._chain.operators.ready():
                    yield True
                    done = 0
            self._chain.data.end_key()

    def _handle_input(self, message: ToSubtask) -> None:
        raise InternalError(f"subtask {self.subtask} has no source but was sent {type(message).__name__}")


class FinishedRunner(BlockingTask):
    """Replaces a subtask whose results an earlier attempt has written: runs nothing, and forwards the final checkpoint."""

    def open(self) -> None:
        """Nothing to open: the chain does not run."""

    def _released(self) -> Iterator[bool]:
        self._broadcast(EndOfInput())
        if self._vertex.is_source:
            self._report(Drained(self.subtask))
        yield True

    def _handle_input(self, message: ToSubtask) -> None:
        match message:
            case Trigger() if self._vertex.is_source:
                self._snapshot(Barrier(message.checkpoint, message.confirmed), [])
            case _:
                super()._handle_input(message)
