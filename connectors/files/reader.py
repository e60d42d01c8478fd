"""Reads lines of parts of files; the position is the byte at which the next line begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Finished, NotYet, Poll, SourceReader
from tidegate.elements import Batch, Origin
from tidegate.errors import RecordError, UnavailableError
from tidegate.ids import CheckpointId

__all__ = ["LineReader"]


class LineReader(SourceReader[FileSplit]):
    """Reads one part after the other."""

    def __init__(self, charset: str) -> None:
        self._charset = charset
        self._splits: deque[FileSplit] = deque()
        self._complete = False

    def add_splits(self, splits: Sequence[FileSplit]) -> None:
        """Take parts."""
        self._splits.extend(splits)

    def no_more_splits(self) -> None:
        """What was added is all."""
        self._complete = True

    def poll(self, limit: int) -> Poll:
        """The next lines of the part at hand."""
        while self._splits:
            try:
                batch = self._read(limit)
            except OSError as error:
                raise UnavailableError(f"file {self._splits[0].path} cannot be read: {error}") from error
            if len(batch):
                return batch
            self._splits.popleft()
        return Finished() if self._complete else NotYet()

    def snapshot(self, checkpoint: CheckpointId) -> list[FileSplit]:
        """The parts that are not read to their end."""
        return list(self._splits)

    def _read(self, limit: int) -> Batch:
        split = self._splits[0]
        values: list[str] = []
        positions: list[int] = []
        with Path(split.path).open("rb") as file:
            at = _to_next_line(file, split)
            while len(values) < limit and at < split.stop and (line := file.readline()):
                values.append(self._text(line, split, at))
                positions.append(at)
                at += len(line)
        self._splits[0] = msgspec.structs.replace(split, at=at, begun=True)
        return Batch(values, origin=Origin(split.id, positions))

    def _text(self, line: bytes, split: FileSplit, at: int) -> str:
        try:
            return line.rstrip(b"\n").removesuffix(b"\r").decode(self._charset)
        except UnicodeDecodeError as error:
            raise RecordError(
                f"line at byte {at} of {split.path} is no {self._charset}: {error.reason}; give its charset"
            ) from error


def _to_next_line(file: BinaryIO, split: FileSplit) -> int:
    """Go to where the part's next line begins, and say where that is."""
    if split.begun or split.at == 0:
        return file.seek(split.at)
    # A line that begins before the part belongs to the part before; one that begins at it has an end before it.
    file.seek(split.at - 1)
    file.readline()
    return file.tell()
