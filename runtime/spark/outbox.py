"""Outbox of a task: its own output, and data that it passes on to later levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from sys import maxsize
from typing import Final

from tidegate.clock import SYSTEM_CLOCK
from tidegate.elements import Barrier, Batch, Element
from tidegate.ids import Subtask
from tidegate.runtime.graph.job_graph import JobEdge, JobVertex
from tidegate.runtime.graph.transformations import NEVER_MS
from tidegate.runtime.spark.spilled import SpilledFrames
from tidegate.runtime.task.credit import Credit
from tidegate.runtime.task.exchange import Buffer, ChannelId, RecordWriter
from tidegate.runtime.task.frames import EdgeCodec
from tidegate.runtime.task.spill import SpillFile

__all__ = ["Outbox", "Share", "pieces"]

Share = Mapping[Subtask, Iterable[bytes]]
"""Frames that go to one partition, by the subtask they are for."""

_MOST: Final = 256
"""Records per frame of a batch job: a frame is in memory three times while it is read."""


class Outbox:
    """Encoded elements by the subtask they are for.

    Args:
        directory: Where they are spilled to disk, for batch jobs: a receiver that starts when all are there needs no control
            elements among them. None keeps them in memory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.bytes = 0
        """Bytes of its own output."""
        self._file = None if directory is None else SpillFile(directory)
        self._frames: defaultdict[Subtask, list[bytes] | SpilledFrames] = defaultdict(
            list if self._file is None else partial(SpilledFrames, self._file)
        )

    def pass_on(self, subtask: Subtask, frames: Iterable[bytes]) -> None:
        """Add frames of an earlier task for a later level, in the order of each channel."""
        self._frames[subtask].extend(frames)

    def gates(self, vertex: JobVertex, index: int) -> dict[str, RecordWriter]:
        """The outputs of a subtask's exchanges, without backpressure."""
        return {edge.name: RecordWriter(edge, index, self._channels(edge, index)) for edge in vertex.outputs}

    def dealt(self, level: Sequence[Subtask], partition: int) -> list[Share]:
        """All data by partition of the next level; data for later levels is passed on by one of these partitions."""
        places = {subtask: place for place, subtask in enumerate(level)}
        shares: list[dict[Subtask, Iterable[bytes]]] = [{} for _ in level]
        for subtask, frames in self._frames.items():
            shares[places.get(subtask, partition % len(level))][subtask] = frames
        return list(shares)

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()

    def _channels(self, edge: JobEdge, index: int) -> Mapping[int, Buffer]:
        wire = EdgeCodec(edge)
        channel = _Channel if self._file is None else _BatchChannel
        return {
            target: Buffer(
                channel(
                    partial(wire.encode, ChannelId(edge.name, index, target)),
                    partial(self._keep, self._frames[Subtask(edge.target, target)]),
                ),
                NEVER_MS,
                SYSTEM_CLOCK,
            )
            for target in edge.reached_from(index)
        }

    def _keep(self, frames: list[bytes] | SpilledFrames, frame: bytes) -> None:
        frames.append(frame)
        self.bytes += len(frame)


class _Channel:
    """The output of a channel: elements are kept until the task ends."""

    def __init__(self, encode: Callable[[Element], bytes], keep: Callable[[bytes], None]) -> None:
        self.credit = Credit(maxsize)
        self._encode = encode
        self._keep = keep

    def send(self, element: Element) -> None:
        """Keep an element. A barrier is not sent: receivers know the end of the epoch."""
        if not isinstance(element, Barrier):
            self._keep(self._encode(element))


class _BatchChannel(_Channel):
    """The same in a batch job."""

    def send(self, element: Element) -> None:
        """Keep records, few per frame. Watermarks and barriers are not sent: receivers start when all records have arrived."""
        if isinstance(element, Batch):
            for start in range(0, len(element), _MOST):
                self._keep(self._encode(element.part(slice(start, start + _MOST))))


def pieces(share: Share, most: int) -> Iterator[tuple[Mapping[Subtask, list[bytes]], bool]]:
    """A share in pieces of about `most` bytes, at least one piece; for each piece whether it is the last.

    Example:
        >>> one, two = Subtask("totals", 0), Subtask("totals", 1)
        >>> for piece, last in pieces({one: [b"abc", b"de"], two: [b"f"]}, most=4):
        ...     print([*piece.values()], last)
        [[b'abc']] False
        [[b'de'], [b'f']] True
        >>> list(pieces({}, most=4))
        [({}, True)]
    """
    piece: dict[Subtask, list[bytes]] = {}
    size = 0
    for subtask, frames in share.items():
        for frame in frames:
            if size and size + len(frame) > most:
                yield piece, False
                piece, size = {}, 0
            piece.setdefault(subtask, []).append(frame)
            size += len(frame)
    yield piece, True
