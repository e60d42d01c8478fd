"""What arrived, kept on disk and given back as it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tidegate.elements import Batch
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.spill import SpillFile

__all__ = ["Spool"]


class Spool:
    """Batches of some edges in a file, which is there from the first of them."""

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
