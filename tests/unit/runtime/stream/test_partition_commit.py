"""A table of files, partitioned by day and hour: who waits for a partition sees it once it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.files import (
    FileSink,
    FileSinkOptions,
    HivePartitions,
    ParquetFormat,
    ParquetRows,
    Partition,
    PartitionCommit,
    RecordFileSource,
    SuccessFile,
)
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Poll, ReaderContext
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.ids import CheckpointId

HOUR = 3_600_000
EIGHT = 8 * HOUR
SCHEMA = pa.schema({"user_id": pa.string(), "order_amount": pa.float64()})


@dataclass(frozen=True)
class Orders(GeneratorSource[dict[str, Any]]):
    """Orders that come in steps: the next ones once a checkpoint with all before is settled, when what is seen is noted."""

    gates: tuple[int, ...] = ()
    directory: str = ""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return _InSteps(self, self._read)


class _InSteps(RangeReader):
    def __init__(self, orders: Orders, read: Any) -> None:
        super().__init__(read)
        self._gates = list(orders.gates)
        self._directory = Path(orders.directory)
        self._at = 0
        self._taken: dict[CheckpointId, int] = {}

    def poll(self, limit: int) -> Poll:
        if self._gates and self._at == self._gates[0]:
            return NotYet()
        found = super().poll(min(limit, self._gates[0] - self._at) if self._gates else limit)
        self._at = min((split.next for split in super().snapshot(CheckpointId(0))), default=self._at)
        return found

    def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
        self._taken[checkpoint] = self._at
        return super().snapshot(checkpoint)

    def settled(self, checkpoint: CheckpointId) -> None:
        at = self._taken.get(checkpoint, 0)
        if self._gates and at == self._gates[0]:
            seen = [str(path.relative_to(self._directory)) for path in self._directory.glob("dt=*/hr=*/*")]
            (self._directory / f".seen-{at}").write_bytes(msgspec.json.encode(sorted(seen)))
            self._gates.pop(0)


class LogTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value["log_ts"]
        return time


@dataclass(frozen=True)
class Consumer:
    """Reads a partition when it is told of it, and notes how many rows it found."""

    path: str

    def commit(self, partition: Partition) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{partition.fields['hr']}: {len(rows_of(partition.path))}\n")


def rows_of(path: str | Path) -> list[dict[str, Any]]:
    """A batch query of a partition."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "execution.runtime-mode": "BATCH"}
    )
    rows: list[dict[str, Any]] = list(
        env.from_source(RecordFileSource(str(path), ParquetFormat())).execute_and_collect()
    )
    return rows


def write(
    env: StreamExecutionEnvironment,
    directory: Path,
    how: PartitionCommit,
    times: Sequence[int],
    gates: tuple[int, ...],
) -> None:
    """Orders into a table partitioned by the day and hour of their log time, 5 seconds out of order at most."""
    orders = [
        {"user_id": f"u{number}", "order_amount": 1.5, "log_ts": time} for number, time in enumerate(times)
    ]
    source = Orders(
        lambda number: orders[number], count=len(orders), splits=1, gates=gates, directory=str(directory)
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        LogTime()
    )
    options = FileSinkOptions(buckets=HivePartitions("dt", "hr"), partition_commit=how)
    rows = env.from_source(source, strategy, "orders").rebalance().map(partitioned)
    rows.sink_to(FileSink(str(directory), ParquetRows(SCHEMA), options))
    env.execute("table")


def partitioned(order: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in order.items() if name != "log_ts"}
    return row | {"dt": "1970-01-01", "hr": f"{order['log_ts'] // HOUR:02}"}


def seen(directory: Path, gate: int) -> dict[str, list[str]]:
    """What was seen by partition after a step: kinds of files."""
    found: dict[str, list[str]] = {}
    for name in msgspec.json.decode((directory / f".seen-{gate}").read_bytes(), type=list[str]):
        partition, _, file = name.rpartition("/")
        found.setdefault(partition.rpartition("/")[2], []).append(file.partition("-")[0])
    return {partition: sorted(set(kinds)) for partition, kinds in found.items()}


@pytest.fixture
def table(tmp_path: Path, anywhere: StreamExecutionEnvironment) -> Path:
    anywhere.configure(
        {"state.checkpoints.dir": str(tmp_path / "state"), "execution.checkpointing.interval": "50 ms"}
    )
    (tmp_path / "table").mkdir()
    return tmp_path / "table"


@pytest.mark.spec("004/AX-045", "003/TC-24", "004/HIV-015", "004/HIV-016", "004/HIV-017")
def test_a_partition_is_visible_once_the_watermark_is_past_its_hour_and_the_delay_at_a_checkpoint(
    anywhere: StreamExecutionEnvironment, table: Path
) -> None:
    how = PartitionCommit("partition-time", delay_ms=HOUR, timestamp_pattern="$dt $hr:00:00")
    first = [7 * HOUR + 600_000, 7 * HOUR + 3_000_000, EIGHT + 5_000]
    last_too_early, enough = EIGHT + 5_001, EIGHT + 5_002

    write(anywhere, table, how, [*first, last_too_early, enough, enough], gates=(3, 4, 5))

    assert seen(table, 3) == {"hr=07": ["part"], "hr=08": ["part"]}
    assert seen(table, 4) == {"hr=07": ["part"], "hr=08": ["part"]}
    assert seen(table, 5) == {"hr=07": ["_SUCCESS", "part"], "hr=08": ["part"]}
    day = table / "dt=1970-01-01"
    assert sorted(row["user_id"] for row in rows_of(day / "hr=07")) == ["u0", "u1"]
    assert sorted(path.parent.name for path in day.glob("*/_SUCCESS")) == ["hr=07", "hr=08"]


@pytest.mark.spec("004/AX-046", "004/HIV-016", "004/HIV-019")
def test_by_the_clock_a_partition_is_committed_before_its_late_data_arrive(
    anywhere: StreamExecutionEnvironment, table: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    how = PartitionCommit(policies=(SuccessFile(), Consumer(str(notes))))

    write(anywhere, table, how, [7 * HOUR, 7 * HOUR + 1], gates=(1,))

    assert seen(table, 1) == {"hr=07": ["_SUCCESS", "part"]}
    assert notes.read_text() == "07: 1\n07: 2\n"
    assert len(rows_of(table)) == 2


@pytest.mark.spec("004/HIV-019")
def test_by_its_own_time_a_partition_is_committed_with_the_data_that_came_late(
    anywhere: StreamExecutionEnvironment, table: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    how = PartitionCommit(
        "partition-time",
        delay_ms=HOUR,
        timestamp_pattern="$dt $hr:00:00",
        policies=(SuccessFile(), Consumer(str(notes))),
    )

    write(anywhere, table, how, [7 * HOUR, 7 * HOUR + 1], gates=(1,))

    assert seen(table, 1) == {"hr=07": ["part"]}
    assert notes.read_text() == "07: 2\n"
