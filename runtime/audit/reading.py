"""Reads the records of a source's parts, without a pipeline."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from tidegate import registry
from tidegate.clock import Clock
from tidegate.connectors.spi import (
    Finished,
    NotYet,
    Part,
    ReaderContext,
    SourceReader,
    Split,
    SupportsAudit,
)
from tidegate.elements import Batch
from tidegate.errors import InternalError, UnavailableError
from tidegate.ids import OperatorUid, Subtask

__all__ = ["Audited", "Piece", "open_side", "read", "read_one"]

_BATCH: Final = 10_000
_REST_S: Final = 0.01
_PATIENCE_S: Final = 60.0

Piece = tuple[Part, Sequence[Any], Sequence[int]]
"""Records of a part, with their positions."""


@runtime_checkable
class Audited(SupportsAudit, Protocol):
    """A source that can be one side of an audit."""

    def open_reader(self, context: ReaderContext) -> SourceReader[Any]:
        """As of `Source`."""
        ...


def open_side(url: str) -> Audited:
    """What a URL names, by the connector that is registered as `<scheme>.audit`; a plain path names files.

    Raises:
        ConfigError: no connector knows the scheme, or it does not understand the URL.
    """
    source: Audited = registry.load("tidegate.connectors", f"{urlsplit(url).scheme or 'file'}.audit")(url)
    return source


def read(source: Audited, parts: Sequence[Part], clock: Clock) -> Iterator[Piece]:
    """All records of these parts.

    Raises:
        RecordError: one cannot be read.
        UnavailableError: the system did not answer, or not for a long time.
    """
    by_split = {part.split.id: part for part in parts}
    for batch in _batches(source, [part.split for part in parts], clock):
        if batch.origin is None:
            raise InternalError(
                "an audited source must return positions of its records; got a batch without them; please report it"
            )
        part, positions = by_split[batch.origin.split], batch.origin.positions
        end = bisect_left(positions, part.end)
        if end:
            yield part, batch.values[:end], positions[:end]


def read_one(source: Audited, part: Part, position: int, clock: Clock) -> Any:
    """The record at a position; raises as `read` does."""
    with contextlib.closing(_batches(source, [source.only(part, position)], clock)) as batches:
        for batch in batches:
            return batch.values[0]
    raise UnavailableError(f"the record at {part.unit} {position} of {part.name} no longer exists")


def _batches(source: Audited, splits: Sequence[Split], clock: Clock) -> Generator[Batch]:
    context = ReaderContext(OperatorUid("audit"), Subtask("audit", 0), 1, clock)
    with contextlib.closing(source.open_reader(context)) as reader:
        reader.add_splits(splits)
        reader.no_more_splits()
        since = clock.monotonic()
        while clock.monotonic() - since < _PATIENCE_S:
            match reader.poll(_BATCH):
                case Batch() as batch:
                    yield batch
                    since = clock.monotonic()
                case Finished():
                    return
                case NotYet(after_ms=int(after_ms)):
                    clock.sleep(after_ms / 1_000)
                case _:
                    clock.sleep(_REST_S)
    raise UnavailableError(
        f"{splits[0].id} returned no record for {_PATIENCE_S:.0f} s although it has more; try again"
    )
