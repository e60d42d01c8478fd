"""A source without the engine around it: its enumerator and readers, driven step by step in one thread.

A step can be followed by a checkpoint, and a pipeline can begin again at any checkpoint, so tests choose where it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from tests.waiting import until
from tidegate.cdc.change import ChangeEvent
from tidegate.cdc.postgres import PostgresOptions, PostgresSource
from tidegate.cdc.postgres.split import Log, PostgresSplit
from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.spi import Finished, NotYet, ReaderContext
from tidegate.elements import Batch, RowKind
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.row import Row
from tidegate.testing.services import PostgresService
from tidegate.unchanged import UNCHANGED


@dataclass
class Database:
    """The server of the tests, as a superuser sees it."""

    service: PostgresService
    admin: psycopg.Connection[Any]

    @property
    def connect(self) -> dict[str, Any]:
        """Connection parameters of the superuser."""
        return {"host": "127.0.0.1", "port": self.service.port, "user": "postgres", "dbname": "postgres"}

    def run(self, *statements: str) -> None:
        """Run statements, each in its own transaction."""
        for statement in statements:
            self.admin.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.admin.execute(query.encode()).fetchall()

    def session(self) -> psycopg.Connection[Any]:
        """Another session."""
        return psycopg.connect(self.service.dsn)

    def clear(self) -> None:
        """Drop what a test has made."""
        for (gid,) in self.rows("select gid from pg_prepared_xacts"):
            self.admin.execute(SQL("rollback prepared {}").format(gid))
        self.drop_slots()
        for (publication,) in self.rows("select pubname from pg_publication"):
            self.admin.execute(SQL("drop publication {}").format(Identifier(publication)))
        self.run(
            "drop schema public cascade", "create schema public", "grant usage on schema public to public"
        )

    def drop_slots(self) -> None:
        """Drop all slots, once their readers have ended."""
        self.run(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where active_pid is not null"
        )
        until(lambda: not self.rows("select from pg_replication_slots where active_pid is not null"))
        self.run("select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def source(database: Database, *tables: str, **options: Any) -> PostgresSource:
    return PostgresSource(
        database.connect, tables or ["public.t"], "s", options=PostgresOptions(**{"chunk_rows": 2, **options})
    )


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint has of a source."""

    number: int
    enumerator: bytes
    splits: tuple[PostgresSplit, ...]
    records: int


@dataclass
class _Context:
    pipeline: Pipeline

    @property
    def owner(self) -> str:
        return self.pipeline.owner

    @property
    def parallelism(self) -> int:
        return len(self.pipeline.readers)

    def assign(self, reader: int, splits: Sequence[PostgresSplit]) -> None:
        self.pipeline.asked.discard(reader)
        self.pipeline.readers[reader].add_splits(splits)

    def no_more_splits(self, reader: int) -> None:
        self.pipeline.readers[reader].no_more_splits()

    def send_event(self, reader: int, event: bytes) -> None:
        raise AssertionError("the source sends no events")


@dataclass
class Pipeline:
    """Runs a source until it is closed.

    Args:
        source: What to run.
        parallelism: How many readers it has.
        at: The checkpoint to begin at.
        limit: How many records a poll may give.
        owner: Whose pipeline it is.
    """

    source: PostgresSource
    parallelism: int = 2
    at: Checkpoint | None = None
    limit: int = 100
    owner: str = "tests"
    records: list[tuple[RowKind, Any]] = field(default_factory=list)
    """What the readers gave, in the order of the polls."""
    asked: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        def opened(number: int) -> Any:
            subtask = Subtask("source", number)
            return self.source.open_reader(
                ReaderContext(OperatorUid("source"), subtask, self.parallelism, SYSTEM_CLOCK)
            )

        self.readers = [opened(number) for number in range(self.parallelism)]
        self.finished = set[int]()
        self._checkpoints = 0 if self.at is None else self.at.number
        restored = None if self.at is None else self.at.enumerator
        self.enumerator = self.source.open_enumerator(_Context(self), restored)
        try:
            self.enumerator.start()
            if self.at is not None:
                self.enumerator.give_back(self.at.splits)
        except BaseException:
            self.close()
            raise
        if self.at is not None:
            del self.records[self.at.records :]

    def _step(self, reader: int) -> bool:
        """Poll a reader once; whether it gave records."""
        result = self.readers[reader].poll(self.limit)
        match result:
            case Batch():
                kinds = result.kinds or [RowKind.INSERT] * len(result.values)
                self.records += zip(map(RowKind, kinds), result.values, strict=True)
                return True
            case NotYet(after_ms=None) if reader not in self.asked:
                self.asked.add(reader)
                self.enumerator.request(reader)
            case Finished():
                self.finished.add(reader)
        return False

    def round(self) -> bool:
        """Poll each reader once, and serve those that wait; whether one gave records."""
        if self.loading:
            self.enumerator.discovered(None)
        polled = [self._step(reader) for reader in range(self.parallelism) if reader not in self.finished]
        return any(polled)

    def run(self, done: Callable[[], bool]) -> None:
        """Go on until something is true."""
        until(lambda: done() or (self.round() and done()))

    @property
    def loading(self) -> bool:
        """Whether the first load is not complete."""
        return self.enumerator.discovery_interval_ms is not None

    def until_records_or_log(self) -> None:
        """Go on until there are records, or the load has ended; the log is then read until there are records."""
        following = not self.loading
        self.run(lambda: bool(self.records) or not (self.loading or following))

    def run_to_the_end(self) -> None:
        """Go on until all readers are finished."""
        self.run(lambda: len(self.finished) == self.parallelism)

    def follow(self) -> None:
        """Go on until the first load is complete."""
        self.run(lambda: any(split.id.startswith("log:") for split in self._held()))

    def catch_up(self, database: Database) -> None:
        """Go on until everything is read that is committed by now."""
        database.run("create table if not exists public.pulse (id int)")
        lsn = database.rows("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0][0]
        self.follow()
        database.run("insert into public.pulse values (1)")
        self.run(lambda: self.position() >= lsn)

    def position(self) -> int:
        """Where the log is read to."""
        (log,) = [split.part for split in self._held() if isinstance(split.part, Log)]
        return int(log.position.end_lsn)

    def checkpoint(self) -> Checkpoint:
        """Take one."""
        self._checkpoints += 1
        number = CheckpointId(self._checkpoints)
        state = self.enumerator.snapshot(number)
        splits = [split for reader in self.readers for split in reader.snapshot(number)]
        assert len({split.id for split in splits}) == len(splits)
        return Checkpoint(number, state, tuple(splits), len(self.records))

    def settle(self, checkpoint: Checkpoint) -> None:
        """Tell the readers that it counts."""
        for reader in self.readers:
            reader.settled(CheckpointId(checkpoint.number))

    def close(self) -> None:
        """Disconnect, as a failing job does too."""
        for reader in self.readers:
            reader.close()
        self.enumerator.close()

    def take(self) -> list[str]:
        """The records since the last time, as texts."""
        taken = [shown(kind, record) for kind, record in self.records]
        self.records.clear()
        return taken

    def _held(self) -> Iterator[PostgresSplit]:
        for reader in self.readers:
            yield from reader.snapshot(CheckpointId(0))

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shown(kind: RowKind, record: Any) -> str:
    """A record in a line: `+I id=1 name=ada`."""
    if isinstance(record, ChangeEvent):
        return f"{record.op.value} {record.before} {record.after}"
    return f"{kind} " + " ".join(f"{name}={value}" for name, value in record.as_dict().items())


class Replica:
    """A table built from records, which refuses what does not follow from what it has.

    Args:
        key: The names of the key columns.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self._key = key
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def apply(self, kind: RowKind, row: Row) -> None:
        """Take one record."""
        values = row.as_dict()
        key = tuple(values[name] for name in self._key)
        if kind is RowKind.INSERT:
            assert key not in self.rows, f"{key} is inserted and was there: {self.rows[key]}, now {values}"
            self.rows[key] = values
            return
        assert key in self.rows, f"{kind} of {key}, which is not there: {values}"
        if kind is RowKind.DELETE:
            del self.rows[key]
        elif kind is RowKind.UPDATE_AFTER:
            self.rows[key] |= {name: value for name, value in values.items() if value is not UNCHANGED}

    def take(self, pipeline: Pipeline) -> None:
        """Apply what a pipeline has given since the last time."""
        for kind, row in pipeline.records:
            self.apply(kind, row)
        pipeline.records.clear()
