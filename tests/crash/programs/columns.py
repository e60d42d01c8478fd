"""Parquet files filtered and dealt to Parquet files as columns; settings come from the command line."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.connectors.files import FileSink, ParquetFormat, ParquetRows, RecordFileSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})
UNALIGNED = "execution.checkpointing.unaligned.enabled"


class ColumnsOnly(ParquetRows):
    """Refuses rows, which nothing on the way may make."""

    def encode(self, values: list[Any]) -> Any:
        raise AssertionError(f"{len(values)} rows were made")


def kept(number: int) -> bool:
    """All but each thirteenth, after some work: a run takes a second or two."""
    return sum(range(2_000)) > 0 and number % 13 > 0


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    rows = env.from_source(RecordFileSource(str(Path(directory).parent / "in"), ParquetFormat()))
    step = Expressions((Branch(where='kept(v["id"])'),), names={"kept": kept})
    filtered = rows.transform("filter", EXPRESSIONS, step).rebalance()
    # Records on their way are stored as rows, and come back as such.
    encoder = ParquetRows(SCHEMA) if settings.get(UNALIGNED) else ColumnsOnly(SCHEMA)
    filtered.sink_to(FileSink(directory, encoder)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
