"""Reads parts of files, in whichever format."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from tidegate.connectors.files.reading import FileFormat, Piece
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Finished, NotYet, Poll, SourceReader
from tidegate.elements import Batch, Origin
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId

__all__ = ["FileReader"]


class FileReader(SourceReader[FileSplit]):
    """Reads one part after the other; the file at hand stays open between polls."""

    def __init__(self, file_format: FileFormat) -> None:
        self._format = file_format
        self._splits: deque[FileSplit] = deque()
        self._complete = False
        self._pieces: Iterator[Piece] | None = None
        self._piece = _NOTHING
        self._taken = 0

    def add_splits(self, splits: Sequence[FileSplit]) -> None:
        """Take parts."""
        self._splits.extend(splits)

    def no_more_splits(self) -> None:
        """What was added is all."""
        self._complete = True

    def poll(self, limit: int) -> Poll:
        """The next records of the part at hand."""
        while self._splits:
            try:
                batch = self._next(limit)
            except Exception as error:
                self._leave()
                if isinstance(error, OSError):
                    raise UnavailableError(f"file {self._splits[0].path} cannot be read: {error}") from error
                raise
            if batch is not None:
                return batch
            self._splits.popleft()
            self._leave()
        return Finished() if self._complete else NotYet()

    def snapshot(self, checkpoint: CheckpointId) -> list[FileSplit]:
        """The parts that are not read to their end."""
        return list(self._splits)

    def close(self) -> None:
        """Close the file at hand."""
        self._leave()

    def _next(self, limit: int) -> Batch | None:
        split = self._splits[0]
        if self._pieces is None:
            self._pieces = self._format.read(split)
        while self._taken == len(self._piece.values):
            piece = next(self._pieces, None)
            if piece is None:
                return None
            self._piece, self._taken = piece, 0
        start, end = self._taken, min(self._taken + limit, len(self._piece.values))
        self._taken = end
        self._splits[0] = msgspec.structs.replace(split, at=self._piece.bounds[end], begun=True)
        return Batch(self._piece.values[start:end], origin=Origin(split.id, self._piece.bounds[start:end]))

    def _leave(self) -> None:
        self._pieces, self._piece, self._taken = None, _NOTHING, 0


_NOTHING = Piece([], ())
