"""Record lookup: reads single records again by their origin, with sources restored from a checkpoint."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from tidegate.clock import Clock
from tidegate.connectors.spi import Finished, NotYet, ReaderContext, Source, SourceReader, Split, Unreadable
from tidegate.elements import Batch, RecordOrigin
from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.checkpoint.manifest import Manifest
from tidegate.runtime.enumerators import open_enumerator
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex

__all__ = ["find_records"]

_BATCH: Final = 1_000
_PATIENCE_S: Final = 5.0
"""After this time without a record, the source is assumed to have no more of the records."""


def find_records(
    graph: JobGraph, before: Manifest | None, origins: Collection[RecordOrigin], clock: Clock
) -> dict[RecordOrigin, Any]:
    """The records of these origins that their sources still have.

    `before` is the checkpoint after which they were read, None for the start. Records in between are read, too.

    Raises:
        UnavailableError: a source did not answer.
    """
    wanted: dict[str, set[RecordOrigin]] = defaultdict(set)
    for origin in origins:
        wanted[origin.source].add(origin)
    found: dict[RecordOrigin, Any] = {}
    for vertex in graph.vertices.values():
        if vertex.is_source and vertex.head.uid in wanted:
            found |= _read_source(vertex, before, wanted[vertex.head.uid], clock)
    return found


def _read_source(
    vertex: JobVertex, before: Manifest | None, wanted: set[RecordOrigin], clock: Clock
) -> dict[RecordOrigin, Any]:
    source: Source[Any] = vertex.head.payload
    splits = _splits(vertex, before, {origin.split for origin in wanted})
    context = ReaderContext(vertex.head.uid, Subtask(vertex.id, 0), vertex.parallelism, clock)
    found: dict[RecordOrigin, Any] = {}
    with contextlib.closing(source.open_reader(context)) as reader:
        reader.add_splits(splits)
        reader.no_more_splits()
        for batch in _batches(reader, clock):
            found.update(_among(batch, vertex.head.uid, wanted))
            if len(found) == len(wanted):
                break
    return found


def _splits(vertex: JobVertex, before: Manifest | None, wanted: set[str]) -> list[Split]:
    """The splits as they were assigned to the readers after the checkpoint."""
    source: Source[Any] = vertex.head.payload
    assigned: dict[str, Split] = {}

    def assign(vertex: JobVertex, reader: int, splits: tuple[bytes, ...] | None) -> None:
        for data in splits or ():
            split = msgspec.msgpack.decode(data, type=source.split_type)
            assigned[split.id] = split

    with contextlib.closing(open_enumerator(vertex, before, assign)) as enumerator:
        known = -1
        while len(assigned) > known and not wanted <= assigned.keys():
            known = len(assigned)
            for reader in range(vertex.parallelism):
                enumerator.request(reader)
    return [split for name, split in assigned.items() if name in wanted]


def _batches(reader: SourceReader[Any], clock: Clock) -> Iterator[Batch]:
    since = clock.monotonic()
    while clock.monotonic() - since < _PATIENCE_S:
        match reader.poll(_BATCH):
            case (Batch() as batch) | Unreadable(batch=Batch() as batch):
                since = clock.monotonic()
                yield batch
            case NotYet(after_ms=int(after_ms)):
                clock.sleep(min(after_ms / 1_000, _PATIENCE_S))
            case NotYet() | Finished():
                return


def _among(batch: Batch, uid: OperatorUid, wanted: set[RecordOrigin]) -> Iterator[tuple[RecordOrigin, Any]]:
    if batch.origin is not None:
        split = batch.origin.split
        for position, value in zip(batch.origin.positions, batch.values, strict=True):
            origin = RecordOrigin(uid, split, position)
            if origin in wanted:
                yield origin, value
