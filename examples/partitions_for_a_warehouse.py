"""Orders land in hourly partitions of Parquet files, and each hour is announced once it is whole.

`_SUCCESS` tells programs that look for it; the second policy stands for whatever a warehouse wants to be told. Small files
of three checkpoints become one before anybody sees them, and an hour waits for all of its own.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tidegate import FileSink, StreamExecutionEnvironment
from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.watermark_strategy import TimestampAssigner
from tidegate.connectors.files import (
    Compaction,
    FileSinkOptions,
    HivePartitions,
    ParquetRows,
    Partition,
    PartitionCommit,
    SuccessFile,
)
from tidegate.connectors.generator import GeneratorSource

START = datetime(2024, 5, 1, 7, tzinfo=UTC).timestamp()
SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64()})


class OrderTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value["at"] * 1000)


@dataclass(frozen=True)
class Announce:
    """Adds a line to a file; a real one would tell a catalogue."""

    path: Path

    def commit(self, partition: Partition) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(dict(partition.fields)) + "\n")


def order(number: int) -> dict[str, Any]:
    """One order a minute, for three hours."""
    return {"id": number, "amount": number / 4, "at": START + 60 * number}


def row(order: dict[str, Any]) -> dict[str, Any]:
    moment = datetime.fromtimestamp(order["at"], UTC)
    return {"id": order["id"], "amount": order["amount"], "day": f"{moment:%Y-%m-%d}", "hour": f"{moment:%H}"}


def main(place: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"state.checkpoints.dir": str(place / "state")}
    )
    env.set_parallelism(2).enable_checkpointing(50)
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    orders = env.from_source(
        GeneratorSource(order, count=180, splits=1, rate_per_second=300.0),
        late.with_timestamp_assigner(OrderTime()),
        "orders",
    )
    whole = PartitionCommit(
        "partition-time",
        delay_ms=3_600_000,
        timestamp_pattern="$day $hour:00:00",
        policies=(SuccessFile(), Announce(place / "announced")),
    )
    options = FileSinkOptions(
        buckets=HivePartitions("day", "hour"), compaction=Compaction(checkpoints=3), partition_commit=whole
    )
    orders.rebalance().map(row).sink_to(FileSink(place / "orders", ParquetRows(SCHEMA), options))
    env.execute("partitions for a warehouse")

    for line in (place / "announced").read_text().splitlines():
        print(f"whole: {line}")
    hours = (
        ds.dataset(place / "orders", partitioning="hive")
        .to_table()
        .group_by("hour")
        .aggregate([("id", "count")])
    )
    print(f"rows by hour: {dict(sorted(zip(*hours.to_pydict().values(), strict=True)))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
