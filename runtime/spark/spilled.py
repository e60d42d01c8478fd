"""Frames of a batch job on the local disk: the input and output of a task may be larger than memory.

Example:
    >>> import tempfile
    >>> file = SpillFile(Path(tempfile.gettempdir()))
    >>> one, two = SpilledFrames(file), SpilledFrames(file)
    >>> one.append(b"a"), two.append(b"b"), one.append(b"c")
    (None, None, None)
    >>> list(one), list(two)
    ([b'a', b'c'], [b'b'])
    >>> file.close()
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tidegate.elements import Batch
from tidegate.errors import InternalError
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.spill import SpillFile

__all__ = ["ReceivedFrames", "SpilledFrames"]

_FRAMES: Final = msgspec.msgpack.Decoder(Frame)


class SpilledFrames:
    """Some of the frames in a file, in the order in which they were appended."""

    def __init__(self, file: SpillFile) -> None:
        self._file = file
        self._runs: list[tuple[int, int]] = []

    def append(self, frame: bytes) -> None:
        """Keep a frame.

        Raises:
            UnavailableError: the disk could not write it.
        """
        start = self._file.size
        self._file.append(frame)
        if self._runs and self._runs[-1][1] == start:
            start, _ = self._runs.pop()
        self._runs.append((start, self._file.size))

    def extend(self, frames: Iterable[bytes]) -> None:
        """Keep several."""
        for frame in frames:
            self.append(frame)

    def __iter__(self) -> Iterator[bytes]:
        """All of them, one in memory at a time; raises `UnavailableError` if the disk cannot read them."""
        for run in self._runs:
            yield from self._file.blocks(*run)


class ReceivedFrames:
    """The input of a task from earlier tasks, by channel."""

    def __init__(self, directory: Path) -> None:
        self._file = SpillFile(directory)
        self._channels: defaultdict[ChannelId, SpilledFrames] = defaultdict(
            partial(SpilledFrames, self._file)
        )

    def extend(self, frames: Iterable[bytes]) -> None:
        """Keep frames of any channels.

        Raises:
            UnavailableError: the disk could not write them.
        """
        for frame in frames:
            self._channels[_FRAMES.decode(frame).channel].append(frame)

    def batches(self, edge: JobEdge, source: int, target: int) -> Iterator[Batch]:
        """The elements from a subtask; raises `UnavailableError` if the disk cannot read it."""
        wire = EdgeCodec(edge)
        for frame in self._channels.get(ChannelId(edge.name, source, target), ()):
            element = wire.element(_FRAMES.decode(frame))
            if not isinstance(element, Batch):
                raise InternalError(f"a batch job was sent a {type(element).__name__}; expected a Batch")
            yield element

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
