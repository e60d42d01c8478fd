"""What several programs of these tests are made of: streams as they are written down, and functions that note an order or fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.common import WatermarkStrategy
from tidegate.connectors.base import Pace, RangeReader, RangeSplit
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, ReaderContext
from tidegate.datastream import DataStream, MapFunction, StreamExecutionEnvironment
from tidegate.ids import CheckpointId
from tidegate.runtime.stream.watermarks import WatermarkGenerator

Item = tuple[Any, int] | int
"""A value and its time, or a watermark."""


class AsWritten(WatermarkGenerator):
    asked = "record"
    newest: int | None = None

    def on_event(self, value: Item, timestamp: int) -> None:
        if isinstance(value, int):
            self.newest = value

    def watermark(self) -> int | None:
        return self.newest


TIMES = WatermarkStrategy.for_generator(AsWritten).with_timestamp_assigner(
    lambda item, _: item if isinstance(item, int) else item[1]
)


def stream(env: StreamExecutionEnvironment, *items: Item) -> Any:
    """The values of one key, in this order, with the watermarks between them."""
    stamped: Any = env.from_collection(items).set_parallelism(1).assign_timestamps_and_watermarks(TIMES)
    records = stamped.set_parallelism(1).filter(lambda item: not isinstance(item, int)).set_parallelism(1)
    return records.map(lambda item: item[0]).set_parallelism(1).key_by(lambda value: "k")


def listed(key: Any, window: Any, values: list[Any]) -> list[list[Any]]:
    return [values]


def ran(stream: DataStream) -> list[Any]:
    return list(stream.execute_and_collect())


class Numbered(MapFunction):
    """Adds how many records came before."""

    def open(self, runtime_context: Any) -> None:
        self.count = 0

    def map(self, value: Any) -> tuple[int, Any]:
        self.count += 1
        return self.count, value


class FailOnce(MapFunction):
    """Fails at one record, and notes which record it sees first after that."""

    def __init__(self, fatal: int, failed: Path, resumed: Path) -> None:
        self.fatal, self.failed, self.resumed = fatal, failed, resumed

    def map(self, value: int) -> int:
        if value == self.fatal and not self.failed.exists():
            self.failed.touch()
            raise ValueError("once")
        if self.failed.exists() and not self.resumed.exists():
            self.resumed.write_text(str(value))
        return value


@dataclass(frozen=True)
class Halting(GeneratorSource[int]):
    """Goes no further than one of its numbers before a checkpoint with all before it is settled, however long that takes."""

    halt: int = 0

    def open_reader(self, context: ReaderContext) -> RangeReader:
        rate = self.rate_per_second
        return _HaltingReader(self._read, self.halt, None if rate is None else Pace(rate, context.clock))


class _HaltingReader(RangeReader):
    def __init__(self, read: Callable[[range], list[Any]], halt: int, pace: Pace | None) -> None:
        super().__init__(read, pace)
        self._halt = halt
        self._first: CheckpointId | None = None
        self._free = False

    def poll(self, limit: int) -> Poll:
        left = self._halt - self._splits[0].next if self._splits and not self._free else -1
        return NotYet() if left == 0 else super().poll(min(limit, left) if left > 0 else limit)

    def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
        if self._first is None and self._splits and self._splits[0].next == self._halt:
            self._first = checkpoint
        return super().snapshot(checkpoint)

    def settled(self, checkpoint: CheckpointId) -> None:
        self._free = self._free or (self._first is not None and checkpoint >= self._first)
