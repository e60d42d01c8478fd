"""Rows written to Postgres by a program, in each mode of the sink, against plain COPY of the same rows in the same run.

Rows are tuples on both sides, and both send them by psycopg's `write_row`; the loop by hand has one transaction and no checkpoint.
What is compared is the CPU time of the client; the server is another process, and its part is not counted. `BENCH_RECORDS` is how many
rows.
"""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.harness import Bar, Case, Report, compare, main
from benchmarks.prebuilt import RECORDS, PrebuiltSource
from tidegate.connectors.database import Database, DatabaseSink, DatabaseSinkOptions, DatabaseSource
from tidegate.connectors.database.options import WriteMode
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing.services import PostgresService

ROWS = int(os.environ.get("BENCH_RECORDS", "200_000"))
TABLE = "CREATE TABLE {} (id bigint{}, name text, amount double precision, at timestamp, position bigint)"
COPY, READ = "COPY by hand", "cursor by hand"
BARS = {"prepared": 0.7, "staged": 0.6, "at-least-once": 0.7}
KEYED_BARS = {"staged": 0.35, "positions": 0.35, "at-least-once": 0.35}


def build(rounds: int) -> Report:
    with PostgresService() as postgres, tempfile.TemporaryDirectory() as folder:
        with psycopg.connect(postgres.dsn) as connection:
            connection.execute(TABLE.format("rows", "").encode())
            connection.execute(TABLE.format("keyed", " PRIMARY KEY").encode())
        day = datetime.datetime(2024, 5, 1)
        RECORDS[:] = [
            (number, f"customer-{number % 10_000}", number / 4, day, number) for number in range(ROWS)
        ]
        place = Place(postgres.dsn, folder)
        place.by_hand()
        with psycopg.connect(postgres.dsn) as connection:
            connection.execute(b"CREATE TABLE read (LIKE keyed INCLUDING ALL)")
            connection.execute(b"INSERT INTO read SELECT * FROM rows")
        size = {"rows": ROWS}
        cases = [Case(COPY, place.by_hand, size, ROWS)]
        cases += [Case(f"added, {mode}", place.writing("rows", mode), size, ROWS) for mode in modes(BARS)]
        cases += [
            Case(f"by key, {mode}", place.writing("keyed", mode), size, ROWS) for mode in modes(KEYED_BARS)
        ]
        cases += [Case(READ, place.read_by_hand, size, ROWS), Case("source", place.reading, size, ROWS)]
        bars = [Bar(f"added, {mode}", COPY, limit, "of its speed") for mode, limit in BARS.items()]
        bars += [Bar(f"by key, {mode}", COPY, limit, "of its speed") for mode, limit in KEYED_BARS.items()]
        bars.append(Bar("source", READ, 0.5, "of its speed"))
        return compare("database", cases, bars, rounds=rounds, seconds=None, clock="cpu_s")


def modes(bars: dict[str, float]) -> list[Any]:
    return list(bars)


class Place:
    """A database, and a folder for checkpoints."""

    def __init__(self, dsn: str, folder: str) -> None:
        self.dsn = dsn
        self.folder = folder

    def by_hand(self) -> None:
        """One COPY."""
        self.emptied("rows")
        with (
            psycopg.connect(self.dsn) as connection,
            connection.cursor() as cursor,
            cursor.copy("COPY rows FROM STDIN") as copy,
        ):
            for row in RECORDS:
                copy.write_row(row)

    def writing(self, table: str, mode: WriteMode) -> Callable[[], object]:
        """A program that writes all rows, with its checkpoints."""

        def run() -> Any:
            self.emptied(table)
            keyed = table == "keyed"
            sink = DatabaseSink(
                Database(self.dsn),
                table,
                key=("id",) if keyed else (),
                position=("position",) if mode == "positions" else (),
                options=DatabaseSinkOptions(mode=mode),
            )
            env = self.environment()
            env.from_source(PrebuiltSource(ROWS)).sink_to(sink)
            return env.execute()

        return run

    def read_by_hand(self) -> None:
        """A cursor of the server."""
        with psycopg.connect(self.dsn) as connection, connection.cursor("reading") as cursor:
            cursor.itersize = 2_000
            cursor.execute("SELECT * FROM read ORDER BY id")
            assert sum(1 for _ in cursor) == ROWS

    def reading(self) -> Any:
        """A program that reads every row and keeps none."""
        env = self.environment()
        rows = env.from_source(DatabaseSource(Database(self.dsn), "read"))
        rows.filter(lambda row: row[0] < 0).print()
        return env.execute()

    def emptied(self, table: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"TRUNCATE {table}".encode())

    def environment(self) -> StreamExecutionEnvironment:
        return StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "inline",
                "pipeline.progress": "off",
                "state.checkpoints.dir": str(Path(self.folder, "state")),
            }
        )


if __name__ == "__main__":
    main(build)
