"""Copies a table of Postgres, as change events, into files; settings come from the command line."""

from __future__ import annotations

import json
import sys
from typing import Any

from tidegate.cdc import ChangeEvent, Events
from tidegate.cdc.postgres import PostgresOptions, PostgresSource
from tidegate.common import WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.datastream import StreamExecutionEnvironment


def as_line(event: ChangeEvent) -> dict[str, Any]:
    return {"at": list(event.position), "op": event.op.value, "before": event.before, "after": event.after}


def main(directory: str, settings: dict[str, Any], port: str, password: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = PostgresSource(
        {"host": "127.0.0.1", "port": port, "user": "copier", "password": password, "dbname": "postgres"},
        ["public.accounts"],
        "copy",
        deserializer=Events(),
        options=PostgresOptions(chunk_rows=40, slot_exists="recreate", streaming=True),
    )
    events = env.from_source(source, WatermarkStrategy.no_watermarks(), "accounts")
    events.map(as_line).sink_to(FileSink(directory)).uid("files")
    env.execute("copy")


if __name__ == "__main__":
    directory, _, _, settings, port, password = sys.argv[1:]
    main(directory, json.loads(settings), port, password)
