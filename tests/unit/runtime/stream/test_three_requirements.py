"""What a job that fails once shows if its source, its state and its sink do their part, and if one of them does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, ReaderContext
from tidegate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.elements import Batch
from tidegate.ids import CheckpointId
from tidegate.types import Types

COUNT, KEPT, FATAL = 10, 5, 8
"""A checkpoint lies behind the first five numbers, and the job fails at the eighth."""
TOTALS = [sum(range(number + 1)) for number in range(COUNT)]


@dataclass(frozen=True)
class Numbers(GeneratorSource[int]):
    """Numbers one by one; the sixth waits until a checkpoint with the first five is settled.

    With a place to note how many are gone it cannot go back: who comes later gets those that are left.
    """

    gone: Path | None = None

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return OneByOne(self._read, self.gone)


class OneByOne(RangeReader):
    def __init__(self, read: Any, gone: Path | None) -> None:
        super().__init__(read)
        self.gone = gone
        self.at = 0
        self.taken: dict[CheckpointId, int] = {}
        self.waits = True

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        (split,) = splits
        self.at = split.next if self.gone is None or not self.gone.exists() else int(self.gone.read_text())
        self.waits = self.at < KEPT
        super().add_splits([RangeSplit(split.id, self.at, split.stop)])

    def poll(self, limit: int) -> Poll:
        if self.waits and self.at == KEPT:
            return NotYet()
        found = super().poll(1)
        if isinstance(found, Batch):
            self.at += 1
            if self.gone is not None:
                self.gone.write_text(str(self.at))
        return found

    def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
        self.taken[checkpoint] = self.at
        return super().snapshot(checkpoint)

    def settled(self, checkpoint: CheckpointId) -> None:
        self.waits = self.waits and self.taken.get(checkpoint) != KEPT


@dataclass
class FailsOnce(MapFunction):
    noted: Path
    at: int

    def map(self, value: int) -> int:
        if value == self.at and not self.noted.exists():
            self.noted.touch()
            raise RuntimeError("failed once")
        return value


class Kept(KeyedProcessFunction):
    """A total that is part of checkpoints."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value)
        yield self.total.value()


class Forgotten(KeyedProcessFunction):
    """A total that only the function knows."""

    def open(self, runtime_context: Any) -> None:
        self.total = 0

    def process_element(self, value: int, ctx: Any) -> Any:
        self.total += value
        yield self.total


def run(
    directory: Path,
    storage: str,
    write: Any,
    *,
    replayable: bool = True,
    kept: bool = True,
    late: bool = False,
) -> None:
    """Run the job; it fails as soon as it has read its fatal number, or `late`, when all totals before are written."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": 1,
            "pipeline.progress": "off",
            "execution.checkpointing.interval": "20 ms",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "state.checkpoints.dir": storage,
        }
    )
    source = Numbers(int, COUNT, 1, gone=None if replayable else directory / "gone")
    failed = directory / "failed"
    numbers = env.from_source(source).map(FailsOnce(failed, -1 if late else FATAL)).key_by(lambda number: 0)
    totals = numbers.process(Kept() if kept else Forgotten())
    write(totals.map(FailsOnce(failed, TOTALS[FATAL] if late else -1)))
    assert env.execute("totals").restarts == 1


def to_files(directory: Path) -> Any:
    """A sink with transactions."""
    return lambda totals: totals.sink_to(FileSink(str(directory / "out")))


def from_files(directory: Path) -> list[int]:
    return sorted(int(line) for path in directory.glob("out/part-*") for line in path.read_text().split())


@pytest.mark.spec("004/EOS-002", "004/EOS-003", "004/EOS-004", "004/EOS-005", "004/EOS-019")
@pytest.mark.parametrize("storage", ["memory://totals", "files"])
def test_with_all_three_every_number_counts_once(tmp_path: Path, storage: str) -> None:
    run(tmp_path, storage if "://" in storage else str(tmp_path / storage), to_files(tmp_path))

    assert from_files(tmp_path) == TOTALS
    assert any(tmp_path.glob("files/*/chk-*/_metadata")) == (storage == "files")


@pytest.mark.spec("004/EOS-002", "004/EOS-003")
def test_from_a_source_that_cannot_go_back_what_was_not_computed_is_lost(tmp_path: Path) -> None:
    run(tmp_path, str(tmp_path / "state"), to_files(tmp_path), replayable=False)

    lost = sum(range(KEPT, FATAL + 1))
    assert from_files(tmp_path) == [*TOTALS[:KEPT], TOTALS[FATAL + 1] - lost]


@pytest.mark.spec("004/EOS-002", "004/EOS-004")
def test_what_is_computed_from_state_outside_checkpoints_forgets_what_was_before(tmp_path: Path) -> None:
    run(tmp_path, str(tmp_path / "state"), to_files(tmp_path), kept=False)

    assert from_files(tmp_path) == sorted(
        TOTALS[:KEPT] + [total - TOTALS[KEPT - 1] for total in TOTALS[KEPT:]]
    )


@pytest.mark.spec("004/EOS-002", "004/EOS-005")
def test_a_sink_without_transactions_repeats_itself_unless_that_changes_nothing(tmp_path: Path) -> None:
    appended, table = tmp_path / "appended", tmp_path / "table"
    table.mkdir()

    def write(totals: Any) -> None:
        totals.add_sink(lambda total: append(appended, total))
        totals.add_sink(lambda total: (table / str(total)).write_text(str(total)))

    run(tmp_path, str(tmp_path / "state"), write, late=True)

    again = TOTALS[KEPT:FATAL]
    assert sorted(map(int, appended.read_text().split())) == sorted(TOTALS + again)
    assert sorted(int(path.read_text()) for path in table.iterdir()) == TOTALS


def append(path: Path, total: int) -> None:
    with path.open("a") as file:
        file.write(f"{total}\n")
