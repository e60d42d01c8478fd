"""Changes from a source to a sink that notes what each batch says they are."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.connectors.base import Pace, RangeReader
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import Poll, ReaderContext, Sink
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.elements import Batch, RowKind
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import SinkWriter, WriterContext

COUNT = 200

DEALS: dict[str, Callable[[DataStream], DataStream]] = {
    "hash": lambda stream: stream.key_by(lambda number: number % 7),
    "rebalance": DataStream.rebalance,
    "broadcast": DataStream.broadcast,
    "rescale": DataStream.rescale,
    "shuffle": DataStream.shuffle,
    "global": DataStream.global_,
}


@dataclass(frozen=True)
class Changes(GeneratorSource[int]):
    """Numbers, of which every fourth is an insertion, the old row, the new row, or a deletion."""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        rate = self.rate_per_second
        return _ChangesReader(self._read, None if rate is None else Pace(rate, context.clock))


class _ChangesReader(RangeReader):
    def poll(self, limit: int) -> Poll:
        found = super().poll(limit)
        if isinstance(found, Batch):
            found.kinds = [RowKind(number % 4) for number in found.values]
        return found


@dataclass(frozen=True)
class Notes(Sink):
    """Appends to files the kind and value of each record; with `fatal` it is slow and fails at that record, once."""

    directory: Path
    fatal: int | None = None

    delivery = "at-least-once"

    def open_writer(self, context: WriterContext) -> SinkWriter:
        return _NotesWriter(self, context.subtask.index)


class _NotesWriter(SinkWriter):
    def __init__(self, notes: Notes, index: int) -> None:
        self._notes = notes
        self._path = notes.directory / f"notes-{index}"
        self._failed = notes.directory / "failed"
        self._never = threading.Event()

    def write(self, batch: Batch) -> None:
        if self._notes.fatal is not None and not self._failed.exists():
            self._never.wait(0.001 * len(batch))
            if self._notes.fatal in batch.values:
                self._failed.touch()
                raise RuntimeError("half-way")
        kinds = batch.kinds if batch.kinds is not None else [RowKind.INSERT] * len(batch)
        pairs = zip(map(int, kinds), batch.values, strict=True)
        with self._path.open("a") as file:
            file.writelines(json.dumps(pair, default=list) + "\n" for pair in pairs)

    def prepare(self, checkpoint: CheckpointId) -> None:
        """Everything is in the files."""


def noted(directory: Path) -> Counter[tuple[int, Any]]:
    """The kinds and values in all files."""
    lines = [line for path in directory.glob("notes-*") for line in path.read_text().splitlines()]
    pairs = map(json.loads, lines)
    return Counter((kind, tuple(value) if isinstance(value, list) else value) for kind, value in pairs)


def run(env: StreamExecutionEnvironment, directory: Path) -> None:
    """Let changes go from sources to sinks, over each kind of exchange."""
    for name, deal in DEALS.items():
        (directory / name).mkdir()
        changes = env.from_source(Changes(lambda number: number, COUNT, splits=2))
        deal(changes).sink_to(Notes(directory / name)).name(name)
    env.execute("changes")


def check(directory: Path, parallelism: int) -> None:
    """Every record has arrived once with its kind; where copies go to all, once for each."""
    for name in DEALS:
        copies = parallelism if name == "broadcast" else 1
        expected = {(number % 4, number): copies for number in range(COUNT)}
        assert noted(directory / name) == expected, name
