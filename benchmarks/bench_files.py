"""Files read and written by a program, log and checkpoints on, against plain pyarrow for the same rows.

Rows are Python's on both sides: pyarrow makes dictionaries of CSV and JSON lines, and Parquet of the same batches as the
sink gets, which are lists of 16,384 dictionaries; the sink also sees that each value would come back the same. One loop
collects batches for the row groups that the sink writes, 131,072 rows each; another makes a row group of each batch,
which takes it less and costs readers more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.prebuilt import RECORDS, PrebuiltSource, prebuilt
from tidegate.connectors.files import (
    CsvFormat,
    FileFormat,
    FileSink,
    JsonFormat,
    ParquetRows,
    RecordFileSource,
)
from tidegate.datastream import StreamExecutionEnvironment

ROWS = 300_000
WRITTEN = 4 * ROWS
LIMIT, PARQUET_LIMIT = 0.7, 0.8
BATCH = 16_384
SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "amount": pa.float64()})


def build(rounds: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        table, lines = Path(folder, "rows.csv"), Path(folder, "rows.jsonl")
        rows = [(number, f"customer-{number % 10_000}", number / 4) for number in range(ROWS)]
        table.write_text("id,name,amount\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
        lines.write_text("".join(f'{{"id":{a},"name":"{b}","amount":{c}}}\n' for a, b, c in rows))
        reading = CsvFormat(types={"id": int, "amount": float})
        cases = [
            Case("CSV, pyarrow", lambda: pyarrow.csv.read_csv(table).to_pylist(), {"rows": ROWS}, ROWS),
            Case("CSV, source", program(folder, table, reading), {"rows": ROWS}, ROWS),
            Case("JSON, pyarrow", lambda: pyarrow.json.read_json(lines).to_pylist(), {"rows": ROWS}, ROWS),
            Case("JSON, source", program(folder, lines, JsonFormat()), {"rows": ROWS}, ROWS),
        ]
        RECORDS[:] = [{"id": a, "name": b, "amount": c} for a, b, c in rows]
        cases += [
            Case(
                "Parquet, pyarrow",
                plainly(folder, ParquetRows(SCHEMA).row_group_rows // BATCH),
                {"rows": WRITTEN},
                WRITTEN,
            ),
            Case("Parquet, pyarrow, a row group a batch", plainly(folder, 1), {"rows": WRITTEN}, WRITTEN),
            Case("Parquet, sink", writing(folder), {"rows": WRITTEN}, WRITTEN),
        ]
        bars = [
            Bar("CSV, source", "CSV, pyarrow", LIMIT, "of its speed"),
            Bar("JSON, source", "JSON, pyarrow", LIMIT, "of its speed"),
            Bar("Parquet, sink", "Parquet, pyarrow", PARQUET_LIMIT, "of its speed"),
            Bar("Parquet, sink", "Parquet, pyarrow, a row group a batch", PARQUET_LIMIT, "of its speed"),
        ]
        return compare("files", cases, bars, rounds=rounds, clock="cpu_s")


def program(folder: str, path: Path, file_format: FileFormat) -> Callable[[], object]:
    """A program that reads every row and keeps none."""

    def run() -> Any:
        env = environment(folder)
        rows = env.from_source(RecordFileSource(str(path), file_format))
        rows.filter(lambda row: row["id"] < 0).print()
        return env.execute()

    return run


def writing(folder: str) -> Callable[[], object]:
    """A program that writes all records to Parquet files."""

    def run() -> Any:
        env = environment(folder)
        env.from_source(PrebuiltSource(count=WRITTEN)).sink_to(
            FileSink(Path(folder, "out"), ParquetRows(SCHEMA))
        )
        return env.execute()

    return run


def plainly(folder: str, batches: int) -> Callable[[], None]:
    """The same file by a loop over batches, so many to a row group."""

    def run() -> None:
        with pq.ParquetWriter(Path(folder, "plain.parquet"), SCHEMA) as writer:
            for first in range(0, WRITTEN, BATCH * batches):
                starts = range(first, min(first + BATCH * batches, WRITTEN), BATCH)
                rows = (prebuilt(range(start, min(start + BATCH, WRITTEN))) for start in starts)
                writer.write_table(
                    pa.Table.from_batches([pa.RecordBatch.from_pylist(each, SCHEMA) for each in rows])
                )

    return run


def environment(folder: str) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "state.checkpoints.dir": str(Path(folder, "state")),
        }
    )


if __name__ == "__main__":
    main(build)
