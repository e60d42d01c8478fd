"""Parquet files read, filtered and written as Arrow batches, against the same program with rows, and against plain pyarrow.

All of them run inline with log and checkpoints on. The program with rows is the same but for its source, which hands out
lists of dictionaries of the same columns, as sources of other formats do.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Bar, Case, Report, compare, main
from tidegate.connectors.files import FileSink, ParquetFormat, ParquetRows, RecordFileSource
from tidegate.connectors.files.reading import Piece
from tidegate.connectors.files.split import FileSplit
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.runtime.operators.expressions import EXPRESSIONS, Branch, Expressions

ROWS = 400_000
PIECE = 4_096
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "user": pa.string(),
        "city": pa.string(),
        "amount": pa.float64(),
        "tax": pa.float64(),
        "note": pa.string(),
    }
)
HALF = Expressions((Branch(where='v["id"] % 2'),))
FIELDS = ", ".join(f'"{name}": v["{name}"]' for name in ("id", "user", "amount"))
FEWER = Expressions((Branch(f"{{{FIELDS}}}", where='v["id"] % 2'),))


@dataclass(frozen=True)
class RowFormat(ParquetFormat):
    """The same records as lists of dictionaries."""

    def read(self, split: FileSplit) -> Iterator[Piece]:
        for piece in super().read(split):
            for start in range(0, len(piece.values), PIECE):
                values = list(piece.values[start : start + PIECE])
                yield Piece(values, piece.bounds[start : start + len(values) + 1])


def build(rounds: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        table = pa.table(
            [
                range(ROWS),
                [f"customer-{number % 10_000}" for number in range(ROWS)],
                [f"city-{number % 100}" for number in range(ROWS)],
                [number / 4 for number in range(ROWS)],
                [number / 20 for number in range(ROWS)],
                [f"order number {number}" for number in range(ROWS)],
            ],
            schema=SCHEMA,
        )
        path = Path(folder, "orders.parquet")
        pq.write_table(table, path)
        fewer = pa.schema([SCHEMA.field(name) for name in ("id", "user", "amount")])
        cases, bars = [], []
        for name, step, schema in [
            ("copy", None, SCHEMA),
            ("filter", HALF, SCHEMA),
            ("filter and project", FEWER, fewer),
        ]:
            for form, source in [("rows", RowFormat()), ("Arrow", ParquetFormat())]:
                run = program(Path(folder), path, source, step, schema)
                cases.append(Case(f"{name}, {form}", run, {"rows": ROWS}, ROWS))
            bars.append(Bar(f"{name}, Arrow", f"{name}, rows", 0.6))
        cases.append(Case("copy, pyarrow", plainly(Path(folder), path), {"rows": ROWS}, ROWS))
        bars.append(Bar("copy, Arrow", "copy, pyarrow", 1.3))
        return compare("arrow", cases, bars, rounds=rounds, clock="cpu_s")


def program(
    folder: Path, path: Path, file_format: ParquetFormat, step: Expressions | None, schema: pa.Schema
) -> Callable[[], object]:
    numbers = count()

    def run() -> Any:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "pipeline.progress": "off",
                "state.checkpoints.dir": str(folder / "state"),
            }
        )
        stream = env.from_source(RecordFileSource(str(path), file_format))
        if step is not None:
            stream = stream.transform("expressions", EXPRESSIONS, step)
        out = folder / f"out-{next(numbers)}"
        stream.sink_to(FileSink(out, ParquetRows(schema)))
        result = env.execute()
        shutil.rmtree(out)
        return result

    return run


def plainly(folder: Path, path: Path) -> Callable[[], None]:
    def run() -> None:
        with pq.ParquetWriter(folder / "plain.parquet", SCHEMA) as writer:
            for batch in pq.ParquetFile(path).iter_batches(131_072):
                writer.write_batch(batch)

    return run


if __name__ == "__main__":
    main(build)
