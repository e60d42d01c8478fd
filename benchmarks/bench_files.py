"""Rows of CSV and JSON lines read by a program, log and checkpoints on, against plain pyarrow making the same rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.json

from benchmarks.harness import Bar, Case, Report, compare, main
from tidegate.connectors.files import CsvFormat, FileFormat, JsonFormat, RecordFileSource
from tidegate.datastream import StreamExecutionEnvironment

ROWS = 300_000
LIMIT = 0.7


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
        bars = [
            Bar("CSV, source", "CSV, pyarrow", LIMIT, "of its speed"),
            Bar("JSON, source", "JSON, pyarrow", LIMIT, "of its speed"),
        ]
        return compare("files", cases, bars, rounds=rounds, clock="cpu_s")


def program(folder: str, path: Path, file_format: FileFormat) -> Callable[[], object]:
    """A program that reads every row and keeps none."""

    def run() -> Any:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "pipeline.progress": "off",
                "state.checkpoints.dir": str(Path(folder, "state")),
            }
        )
        rows = env.from_source(RecordFileSource(str(path), file_format))
        rows.filter(lambda row: row["id"] < 0).print()
        return env.execute()

    return run


if __name__ == "__main__":
    main(build)
