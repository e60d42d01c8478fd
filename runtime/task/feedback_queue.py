"""Feedback queue of an iteration: in memory up to a limit, the rest on the local disk.

Example:
    >>> import tempfile
    >>> from tidegate.ids import OperatorUid
    >>> from tidegate.runtime.graph.transformations import Forward
    >>> back = JobEdge("step", OperatorUid("step"), "head", Forward(), None, 1, 1, 128, feedback=True)
    >>> waiting = FeedbackQueue([back], Path(tempfile.gettempdir()), room=3)
    >>> for values in ([1, 2], [3, 4], [5]):
    ...     waiting.append(ChannelId(back.name, 0, 0), Batch(values))
    >>> waiting.spilled, [waiting.popleft().values for _ in range(len(waiting))]
    (2, [[1, 2], [3, 4], [5]])
    >>> waiting.close()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from tidegate.elements import Batch, BatchCursor
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.task.credit import FULL
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.spill import SpillFile

__all__ = ["FeedbackQueue"]

_ROOM: Final = 16 * FULL


class FeedbackQueue:
    """A FIFO queue; `room` records are kept in memory, and a spill file is deleted after it is read."""

    def __init__(self, edges: Sequence[JobEdge], directory: Path, room: int = _ROOM) -> None:
        self._edges = edges
        self._directory = directory
        self._room = room
        self._in_memory: deque[Batch] = deque()
        self._spool = _Spool(edges, directory)
        self._on_disk = self._read()
        self.spilled = 0
        """Batches that wait on disk."""

    def __len__(self) -> int:
        return len(self._in_memory) + self.spilled

    def append(self, channel: ChannelId, batch: Batch) -> None:
        """Queue a batch, in parts no larger than one step processes, because each round may multiply the records.

        Raises:
            RecordError: the batch must be spilled, and a value is not of its declared type.
            UnavailableError: the batch cannot be written to disk.
        """
        cursor = BatchCursor(batch)
        while cursor:
            piece = cursor.take(FULL)
            if self.spilled or len(piece) > self._room:
                self._spool.append(channel, piece)
                self.spilled += 1
            else:
                self._in_memory.append(piece)
                self._room -= len(piece)

    def popleft(self) -> Batch:
        """The oldest batch; raises `UnavailableError` if it cannot be read from disk."""
        if self._in_memory:
            batch = self._in_memory.popleft()
            self._room += len(batch)
            return batch
        batch = next(self._on_disk)
        self.spilled -= 1
        if not self.spilled:
            self._on_disk.close()
            self._on_disk = self._read()
        return batch

    def close(self) -> None:
        """Release the disk space."""
        self._on_disk.close()
        self._spool.close()

    def _read(self) -> Generator[Batch, None, None]:
        """Read the files in order: while one is read, new feedback is written to the next."""
        while True:
            with closing(self._spool) as spool:
                self._spool = _Spool(self._edges, self._directory)
                yield from spool.batches()


class _Spool:
    """Batches of some edges in a file, which is created with the first of them."""

    def __init__(self, edges: Iterable[JobEdge], directory: Path) -> None:
        self._wires = {edge.name: EdgeCodec(edge) for edge in edges}
        self._directory = directory
        self._file: SpillFile | None = None

    def append(self, channel: ChannelId, batch: Batch) -> None:
        """Keep a batch.

        Raises:
            RecordError: a value is not what its declared type says.
            UnavailableError: the disk did not take it.
        """
        self._file = self._file or SpillFile(self._directory)
        self._file.append(self._wires[channel.edge].encode(channel, batch))

    def batches(self) -> Iterator[Batch]:
        """All of them in the order they came; raises `UnavailableError` if the disk does not give them."""
        if self._file is None:
            return
        for block in self._file.blocks(0, self._file.size):
            frame = _FRAMES.decode(block)
            element = self._wires[frame.channel.edge].element(frame)
            if isinstance(element, Batch):
                yield element

    def close(self) -> None:
        """Give the space back."""
        if self._file is not None:
            self._file.close()


_FRAMES = msgspec.msgpack.Decoder(Frame)
