"""The database connector passes the kit that authors get, on a real Postgres and on SQLite; the oracles are plain clients.

An upsert that is applied twice leaves the same table. So the oracle of a sink with a key is a log that a trigger of the table
writes: it has each row as often as it was applied.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.connectors.database import Database, DatabaseSink, DatabaseSinkOptions, DatabaseSource
from tidegate.testing.claims import ClaimingSinkSuite
from tidegate.testing.services import PostgresService
from tidegate.testing.sink import RefusedCommitClauses, SinkSuite, SinkTarget
from tidegate.testing.source import PausingSourceSuite, SourceTarget

RECORDS = [(number, f"name {number}") for number in range(13)]
LOG = """
CREATE TABLE {0}_log (id int, name text);
CREATE FUNCTION {0}_note() RETURNS trigger AS
    'BEGIN INSERT INTO {0}_log VALUES (NEW.id, NEW.name); RETURN NULL; END' LANGUAGE plpgsql;
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON {0} FOR EACH ROW EXECUTE FUNCTION {0}_note()"""
SQLITE_LOG = """
CREATE TABLE rows_log (id int, name text);
CREATE TRIGGER inserted AFTER INSERT ON rows BEGIN INSERT INTO rows_log VALUES (NEW.id, NEW.name); END;
CREATE TRIGGER updated AFTER UPDATE ON rows BEGIN INSERT INTO rows_log VALUES (NEW.id, NEW.name); END"""


def rows_in(file: Path, table: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute(f"SELECT id, name FROM {table}").fetchall()


def sqlite_table(file: Path, ddl: str) -> Database:
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.executescript(ddl)
    return Database(f"sqlite:{file}")


def target_of(sink: DatabaseSink, read: Callable[[], list[Any]], **more: Any) -> SinkTarget:
    return SinkTarget(sink, read, RECORDS[:12], RECORDS[12], **more)


@pytest.mark.connector("database (SQLite).sink")
class TestSqliteRows(ClaimingSinkSuite):
    """Rows that are added."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        file = tmp_path / "rows.db"
        database = sqlite_table(file, "CREATE TABLE rows (id int NOT NULL, name text)")
        return target_of(DatabaseSink(database, "rows"), lambda: rows_in(file, "rows"))


@pytest.mark.connector("database (SQLite).sink")
class TestSqliteUpserts(ClaimingSinkSuite):
    """Rows that are written by key."""

    kills = 12

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        file = tmp_path / "rows.db"
        database = sqlite_table(file, f"CREATE TABLE rows (id int PRIMARY KEY, name text); {SQLITE_LOG}")
        return target_of(DatabaseSink(database, "rows", key=("id",)), lambda: rows_in(file, "rows_log"))


class TestLockedSqlite(RefusedCommitClauses):
    """Another process has the file locked."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        file = tmp_path / "rows.db"
        sqlite_table(file, "CREATE TABLE rows (id int NOT NULL, name text)")

        @contextlib.contextmanager
        def refusing() -> Iterator[None]:
            with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                yield
                other.execute("ROLLBACK")

        sink = DatabaseSink(Database(f"sqlite:{file}", lock_timeout_ms=20), "rows")
        return target_of(sink, lambda: rows_in(file, "rows"), refusing=refusing)


class Rows:
    """A table in a schema of its own in Postgres, where the tables of the sink are as well."""

    def __init__(self, postgres: PostgresService, *, key: bool = False) -> None:
        self.dsn = postgres.dsn
        self.name = f"s_{new_id(8)}.rows"
        self.database = Database(postgres.dsn)
        self.execute(f"CREATE SCHEMA {self.name.removesuffix('.rows')}")
        self.execute(f"CREATE TABLE {self.name} (id int {'PRIMARY KEY' if key else 'NOT NULL'}, name text)")
        if key:
            self.execute(LOG.format(self.name))

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.encode())

    def read(self, table: str = "") -> list[Any]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(f"SELECT id, name FROM {self.name}{table}".encode()).fetchall()

    def read_log(self) -> list[Any]:
        return self.read("_log")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(f"LOCK TABLE {self.name} IN ACCESS EXCLUSIVE MODE".encode())
            yield
            connection.rollback()


@pytest.mark.service
@pytest.mark.connector("database.sink")
class TestPostgresRows(ClaimingSinkSuite):
    """Rows that are added, from a stage."""

    kills = 12

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SinkTarget:
        rows = Rows(postgres)
        return target_of(DatabaseSink(rows.database, rows.name), rows.read)


@pytest.mark.service
@pytest.mark.connector("database.sink")
class TestPostgresUpserts(ClaimingSinkSuite):
    """Rows that are written by key, from a stage."""

    kills = 12

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SinkTarget:
        rows = Rows(postgres, key=True)
        return target_of(DatabaseSink(rows.database, rows.name, key=("id",)), rows.read_log)


@pytest.mark.service
@pytest.mark.connector("database (prepared).sink")
class TestPreparedRows(ClaimingSinkSuite):
    """Rows that are added, by prepared transactions."""

    kills = 12

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SinkTarget:
        rows = Rows(postgres)
        options = DatabaseSinkOptions(mode="prepared")
        return target_of(DatabaseSink(rows.database, rows.name, options=options), rows.read)


@pytest.mark.service
class TestLockedTable(RefusedCommitClauses):
    """Another transaction has the table locked: the commit waits for the lock timeout, and is tried again."""

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SinkTarget:
        rows = Rows(postgres, key=True)
        locking = Locking(rows)
        sink = DatabaseSink(Database(rows.dsn, lock_timeout_ms=50), rows.name, key=("id",))
        return target_of(sink, locking.read, refusing=locking.refusing)


class Locking:
    """A table that others lock; its log is read without a lock on it."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def read(self) -> list[Any]:
        return self.rows.read_log()

    def refusing(self) -> contextlib.AbstractContextManager[None]:
        return self.rows.locked()


@pytest.mark.service
@pytest.mark.connector("database (at least once).sink")
class TestRowsAtOnce(SinkSuite):
    """Rows that are visible at once, and written again after a failure."""

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SinkTarget:
        rows = Rows(postgres)
        return target_of(
            DatabaseSink(rows.database, rows.name, options=DatabaseSinkOptions(mode="at-least-once")),
            rows.read,
        )


@pytest.mark.service
@pytest.mark.connector("database (positions).sink")
class TestRowsByPosition(SinkSuite):
    """Rows that are visible at once; writing them again changes nothing. The position is the name."""

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SinkTarget:
        rows = Rows(postgres, key=True)
        return target_of(DatabaseSink(rows.database, rows.name, key=("id",), position=("name",)), rows.read)


@pytest.mark.connector("database (SQLite, positions).sink")
class TestSqliteRowsByPosition(SinkSuite):
    """The same on SQLite."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SinkTarget:
        file = tmp_path / "rows.db"
        database = sqlite_table(file, "CREATE TABLE rows (id int PRIMARY KEY, name text)")
        sink = DatabaseSink(database, "rows", key=("id",), position=("name",))
        return target_of(sink, lambda: rows_in(file, "rows"))


def source_of(source: DatabaseSource) -> SourceTarget:
    return SourceTarget(source, expected=RECORDS, clock=SYSTEM_CLOCK, patience=400)


@pytest.mark.connector("database.source")
class TestSqliteTable(PausingSourceSuite):
    """A table without a key, read as a whole."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        file = tmp_path / "rows.db"
        values = ", ".join(map(str, RECORDS))
        database = sqlite_table(
            file, f"CREATE TABLE rows (id int, name text); INSERT INTO rows VALUES {values}"
        )
        return source_of(DatabaseSource(database, "rows", fetch_size=3))


@pytest.mark.service
@pytest.mark.connector("database.source")
class TestPostgresTable(PausingSourceSuite):
    """A table in ranges, one of which has the rows whose column is NULL."""

    @pytest.fixture
    def target(self, postgres: PostgresService) -> SourceTarget:
        rows = Rows(postgres)
        rows.execute(f"ALTER TABLE {rows.name} ADD part int")
        values = ", ".join(str((*record, record[0] % 5)) for record in RECORDS)
        rows.execute(f"INSERT INTO {rows.name} VALUES {values}")
        rows.execute(f"UPDATE {rows.name} SET part = NULL WHERE part = 4")
        columns = ("id", "name")
        return source_of(
            DatabaseSource(rows.database, rows.name, columns, "part", partitions=3, fetch_size=2)
        )
