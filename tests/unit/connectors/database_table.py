"""A table of SQLite, and a sink for it used as a job does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.connectors.database import Database, DatabaseSink, DatabaseSinkOptions
from tidegate.elements import Batch, RowKind
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import Committable, CommitterContext, SinkWriter, WriterContext

ADD, UB, UA, D = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
UID = OperatorUid("sink")
ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, note TEXT, at INTEGER NOT NULL)"


class Table:
    """A table of SQLite, and a sink for it used as a job does."""

    def __init__(self, directory: Path, ddl: str = ORDERS) -> None:
        self.file = directory / "shop.db"
        self.database = Database(f"sqlite:{self.file}")
        self.do(ddl)

    def do(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as database, database:
            return database.execute(sql).fetchall()

    def rows(self) -> list[Any]:
        return self.do("SELECT * FROM orders ORDER BY 1")

    def sink(self, **more: Any) -> DatabaseSink:
        options = DatabaseSinkOptions(
            **{name: more.pop(name) for name in ("mode", "buffer_rows") if name in more}
        )
        return DatabaseSink(self.database, "orders", options=options, **more)

    def writer(self, sink: DatabaseSink, attempt: str = "a", term: int = 1) -> SinkWriter:
        return sink.open_writer(
            WriterContext(
                *(PipelineId("orders"), UID, Subtask("sink", 0), 1, LineageId("1f"), Branch(0), attempt, ()),
                clock=ManualClock(),
                term=FencingTerm(term),
            )
        )

    def committer(self, sink: DatabaseSink, term: int = 1) -> Any:
        context = CommitterContext(
            PipelineId("orders"), UID, LineageId("1f"), SYSTEM_CLOCK, term=FencingTerm(term)
        )
        return closing(sink.open_committer(context))

    def epoch(
        self, sink: DatabaseSink, changes: list[tuple[RowKind, Any]], checkpoint: int = 1
    ) -> Committable | None:
        with closing(self.writer(sink)) as writer:
            for change in changes:
                writer.write(batch([change]))
            done = writer.prepare(CheckpointId(checkpoint))
        return None if done is None else Committable(UID, 0, CheckpointId(checkpoint), *done)

    def commit(self, sink: DatabaseSink, *work: Committable | None) -> list[Any]:
        with self.committer(sink) as committer:
            return list(committer.commit([each for each in work if each is not None]))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def batch(changes: list[tuple[RowKind, Any]]) -> Batch:
    return Batch([row for _, row in changes], kinds=[kind for kind, _ in changes])
