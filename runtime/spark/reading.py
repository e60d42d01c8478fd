"""A reader at work in a task: from the positions it is given to the admission limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.spi import Finished, NotYet, ReaderContext, Source, SourceReader
from tidegate.elements import Batch
from tidegate.ids import CheckpointId
from tidegate.runtime.graph.job_graph import JobVertex
from tidegate.runtime.spark.messages import ReadOrder

__all__ = ["Done", "read_splits"]

_BATCH = 4_096
_PATIENCE_S = 0.5
"""How long an epoch waits for records that a reader promises for later."""


@dataclass(frozen=True, slots=True)
class Done:
    """What was read: how many records, where the splits stand now, and when there may be more."""

    records: int
    splits: tuple[bytes, ...]
    finished: bool
    wake_ms: int | None


def read_splits(
    vertex: JobVertex,
    order: ReadOrder,
    checkpoint: CheckpointId,
    take: Callable[[Batch], None],
    clock: Clock = SYSTEM_CLOCK,
) -> Done:
    """Open a reader, hand `take` at most `order.limit` records, close the reader."""
    source: Source[Any] = vertex.head.payload
    context = ReaderContext(vertex.head.uid, order.subtask, vertex.parallelism, clock)
    with contextlib.closing(source.open_reader(context)) as reader:
        if order.splits:
            decoded = [msgspec.msgpack.decode(split, type=source.split_type) for split in order.splits]
            reader.add_splits(decoded)
        if order.complete:
            reader.no_more_splits()
        records, wake_ms = _poll(reader, order.limit, take, clock)
        splits = tuple(msgspec.msgpack.encode(split) for split in reader.snapshot(checkpoint))
    return Done(records, splits, order.complete and not splits, wake_ms)


def _poll(
    reader: SourceReader[Any], limit: int, take: Callable[[Batch], None], clock: Clock
) -> tuple[int, int | None]:
    left, deadline = limit, clock.monotonic() + _PATIENCE_S
    while left > 0:
        result = reader.poll(min(left, _BATCH))
        match result:
            case Batch():
                take(result)
                left -= len(result)
            case Finished():
                break
            case NotYet():
                if result.until_ms is None or clock.monotonic() >= deadline:
                    return limit - left, result.until_ms
                wait = max(0.001, (result.until_ms - clock.now_ms()) / 1000)
                clock.sleep(min(wait, deadline - clock.monotonic()))
    return limit - left, None
