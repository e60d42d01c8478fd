"""Reader of the file source, for all formats."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from tidegate.connectors.base.dead_letters import DeadLetter, OnError
from tidegate.connectors.files.reading import OUT_OF_REACH, BadRecord, FileFormat, Piece, forbidden
from tidegate.connectors.files.split import FileSplit
from tidegate.connectors.spi import Finished, NotYet, Poll, ReaderContext, SourceReader, Unreadable
from tidegate.elements import Batch, Origin
from tidegate.errors import RecordError, UnavailableError
from tidegate.ids import CheckpointId

__all__ = ["FileReader"]


class FileReader(SourceReader[FileSplit]):
    """Reads one part after the other; the current file stays open between polls."""

    def __init__(self, file_format: FileFormat, on_error: OnError, context: ReaderContext) -> None:
        self._format = file_format
        self._on_error = on_error
        self._who = (context.pipeline, context.uid)
        self.skipped = 0
        self.letters = 0
        self.parts_left_out = 0
        """Files, or parts of some, that could not be read at all or to their end."""
        if context.program is not None:
            metrics = context.program.get_metrics_group()
            metrics.gauge("skippedRecords", lambda: self.skipped)
            metrics.gauge("deadLetters", lambda: self.letters)
            metrics.gauge("unreadableParts", lambda: self.parts_left_out)
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
        """The next records of the current part."""
        while self._splits:
            try:
                batch = self._next(limit)
            except Exception as error:
                self._leave()
                split = self._splits[0]
                if self._on_error != "fail" and isinstance(error, (RecordError, *OUT_OF_REACH)):
                    batch = self._left_out(self._splits.popleft(), error)
                    if batch is not None:
                        return batch
                    continue
                if isinstance(error, PermissionError):
                    raise forbidden(split.path) from error
                if isinstance(error, OSError):
                    raise UnavailableError(
                        f"file {split.path} cannot be read from position {split.at} on: {error}"
                    ) from error
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
        """Close the current file."""
        self._leave()

    def _next(self, limit: int) -> Batch | Unreadable | None:
        split = self._splits[0]
        if self._pieces is None:
            self._pieces = self._format.read(split)
        while self._taken == len(self._piece.values):
            piece = next(self._pieces, None)
            if piece is None:
                return None
            if piece.bad and self._on_error == "fail":
                raise piece.bad[0].error
            self._piece, self._taken = piece, 0
            if piece.bad and not piece.values:
                found = self._among(split, 0, 0)
                if found is not None:
                    return found
        return self._among(split, self._taken, min(self._taken + limit, len(self._piece.values)))

    def _among(self, split: FileSplit, start: int, end: int) -> Batch | Unreadable | None:
        """Some records of the current piece, with bad records among them and after the last."""
        piece, bounds = self._piece, self._piece.bounds
        self._taken = end
        self._splits[0] = msgspec.structs.replace(split, at=bounds[end], begun=True)
        batch = (
            Batch(piece.values[start:end], origin=Origin(split.id, bounds[start:end]))
            if end > start
            else None
        )
        bad = [
            each for each in piece.bad if each.at < bounds[end] and (start == 0 or each.at >= bounds[start])
        ]
        if not bad:
            return batch
        if self._on_error == "skip":
            self.skipped += len(bad)
            return batch
        self.letters += len(bad)
        letters = [self._letter(split.path, each) for each in bad]
        return Unreadable(Batch(letters, origin=Origin(split.id, [each.at for each in bad])), batch)

    def _left_out(self, split: FileSplit, error: Exception) -> Unreadable | None:
        """Handle a part that cannot be read from here on."""
        self.parts_left_out += 1
        if self._on_error == "skip":
            return None
        self.letters += 1
        place = (("path", split.path), ("from", str(split.at)))
        letter = DeadLetter(None, f"{type(error).__name__}: {error}", *self._who, place)
        return Unreadable(Batch([letter], origin=Origin(split.id, [split.at])), None)

    def _letter(self, path: str, bad: BadRecord) -> DeadLetter:
        return DeadLetter(bad.data, str(bad.error), *self._who, (("path", path), ("byte", str(bad.at))))

    def _leave(self) -> None:
        self._pieces, self._piece, self._taken = None, _NOTHING, 0


_NOTHING = Piece([], ())
