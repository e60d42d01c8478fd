"""What arrived over one edge, kept on disk and given back as it came."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidegate.elements import Batch
from tidegate.runtime.graph.job_graph import JobEdge
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.spill import SpillFile
from tidegate.runtime.task.wire import EdgeWire, Frame

__all__ = ["Spool"]


class Spool:
    """A queue of batches that needs no memory; the file is there from the first of them."""

    def __init__(self, edge: JobEdge, directory: Path) -> None:
        self._wire = EdgeWire(edge)
        self._directory = directory
        self._file: SpillFile | None = None

    def append(self, channel: ChannelId, batch: Batch) -> None:
        """Keep a batch.

        Raises:
            RecordError: a value is not what its declared type says.
            UnavailableError: the disk did not take it.
        """
        self._file = self._file or SpillFile(self._directory)
        self._file.append(self._wire.encode(channel, batch))

    def batches(self) -> Iterator[Batch]:
        """All of them in the order they came; raises `UnavailableError` if the disk does not give them."""
        if self._file is None:
            return
        for block in self._file.blocks(0, self._file.size):
            element = self._wire.element(_FRAMES.decode(block))
            if isinstance(element, Batch):
                yield element

    def close(self) -> None:
        """Give the space back."""
        if self._file is not None:
            self._file.close()


_FRAMES = msgspec.msgpack.Decoder(Frame)
