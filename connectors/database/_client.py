"""Postgres session; the only module that imports psycopg."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from tidegate.checks import shorten
from tidegate.clock import new_id
from tidegate.connectors.database.session import Catalog, ColumnInfo, PreparedTransactions, Session, TableInfo
from tidegate.connectors.database.statements import names_of
from tidegate.errors import ConfigError, MissingExtraError, RecordError, TidegateError, UnavailableError

try:
    import psycopg
    from psycopg.conninfo import make_conninfo
except ImportError as missing:
    raise MissingExtraError("Postgres is not installed; run: pip install 'tidegate[postgres]'") from missing

if TYPE_CHECKING:
    from tidegate.connectors.database.database import Database

__all__ = ["PostgresSession"]

_RECORD: Final = ("22", "23")
"""Classes of SQLSTATE of errors of a single row, such as a constraint."""
_CONFIG: Final = ("28", "3D", "42", "0A", "55000")
"""Classes of SQLSTATE that a person must fix: login, database, names and privileges, a disabled feature."""
_LOGIN: Final = re.compile(
    r"authentication|does not exist|pg_hba\.conf|no password supplied|not permitted to log in|certificate"
)
"""A connection that fails has no SQLSTATE."""
_LINE: Final = re.compile(r"line (\d+)")

_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET IntervalStyle = 'postgres'",
    "SET idle_in_transaction_session_timeout = 0",
    # Staging tables are filled and emptied faster than they are analysed, so the planner overestimates their rows.
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
)

_HEAD: Final = "0::bigint AS tg_work, 0 AS tg_chunk, 0::smallint AS tg_kind, NULL::text AS tg_unchanged"

_COLUMNS: Final = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_INDEXES: Final = """
SELECT i.indexrelid::regclass::text, i.indisprimary, i.indisunique AND i.indpred IS NULL AND i.indimmediate AND i.indexprs IS NULL,
       (SELECT array_agg(a.attname::text ORDER BY u.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, n)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum WHERE u.n <= i.indnkeyatts)
FROM pg_index i WHERE i.indrelid = to_regclass(?) AND (i.indisunique OR i.indisexclusion)"""
_CHECKS: Final = """
SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE contype = 'c' AND conrelid = to_regclass(?) AND convalidated"""
_FOREIGN: Final = """
SELECT conname::text FROM pg_constraint WHERE contype = 'f' AND conrelid = to_regclass(?)"""


class PostgresSession(Session):
    """A connection of Postgres."""

    dialect = "postgresql"
    locking = " FOR SHARE"  # so that writers do not wait for each other

    def __init__(self, database: Database) -> None:
        self.shown = database.shown
        self.catalog = PostgresCatalog(self)
        self.prepared = PostgresPrepared(self)
        given = {
            "user": database.username,
            "password": database.password,
            "connect_timeout": max(2, database.connect_timeout_ms // 1_000),
            "keepalives_idle": 30,
            "application_name": "tidegate",
        }
        own = {name: value for name, value in given.items() if value is not None}
        with self._translated():
            self._connection = psycopg.connect(make_conninfo(database.url, **own), autocommit=True)
            with self._connection.pipeline():
                for setting in (*_SETTINGS, f"SET lock_timeout = {database.lock_timeout_ms}"):
                    self._connection.execute(setting.encode())

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        with self._translated():
            cursor = self._connection.execute(_sql(sql, values), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """The number of rows that it changed."""
        with self._translated():
            return self._connection.execute(_sql(sql, values), values or None).rowcount

    def stream(self, sql: str, values: Sequence[Any], size: int) -> Iterator[list[tuple[Any, ...]]]:
        """By a server-side cursor, in its own transaction."""
        name = f"tidegate_{new_id(8)}"
        with self._translated(), self._connection.transaction(), self._connection.cursor(name) as cursor:
            cursor.execute(_sql(sql, values), values or None)
            while rows := cursor.fetchmany(size):
                yield rows

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: str) -> None:
        """By COPY."""
        statement = f"COPY {table} ({names_of(columns)}) FROM STDIN".encode()
        with (
            self._translated(shown, rows),
            self._connection.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            write = copy.write_row
            for row in rows:
                write(row)

    def begin(self) -> None:
        """Begin a transaction."""
        self.execute("BEGIN")

    def end(self, *, commit: bool) -> None:
        """End it."""
        self.execute("COMMIT" if commit else "ROLLBACK")

    def close(self) -> None:
        """Disconnect."""
        with suppress(psycopg.Error):
            self._connection.close()

    def epoch_table(self, stage: str) -> str:
        """The staging table itself, in a transaction that lasts until the barrier."""
        self.begin()
        return stage

    def keep_epoch(self, stage: str) -> None:
        """Nothing to do: the rows are in the staging table."""

    def scratch(self, target: str) -> str:
        """A temporary table that each commit empties."""
        made = f"SELECT {_HEAD}, t.* FROM {target} AS t WITH NO DATA"
        self.execute(f"CREATE TEMPORARY TABLE tidegate_scratch ON COMMIT DELETE ROWS AS {made}")
        return "pg_temp.tidegate_scratch"

    def finish_prepared(self, statement: str) -> bool:
        """End a prepared transaction; False if it does not exist."""
        try:
            self._connection.execute(statement.encode())
        except psycopg.errors.UndefinedObject:
            return False
        except psycopg.Error as error:
            raise self._of(error) from error
        return True

    @contextmanager
    def _translated(self, table: str = "", rows: Sequence[Any] = ()) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._of(error, table, rows) from error

    def _of(self, error: psycopg.Error, table: str = "", rows: Sequence[Any] = ()) -> TidegateError:
        """The translated error; it shows no credentials, and only the row that caused it."""
        state, said = error.sqlstate or "", error.diag
        text = said.message_primary or str(error).strip().partition("\n")[0]
        more = "; ".join(filter(None, (said.message_detail, said.context if table else None)))
        where = f"{self.shown}, table {table}" if table else self.shown
        message = f"database {where}: {text}" + (f" ({more})" if more else "")
        client = not state and isinstance(error, psycopg.DataError | psycopg.ProgrammingError)
        if client or state.startswith(_RECORD):
            line = _LINE.search(said.context or "")
            at = int(line[1]) - 1 if line else -1
            shown = f"; the record is {shorten(rows[at])}" if 0 <= at < len(rows) else ""
            return RecordError(f"{message}{shown}; correct the record, or the table")
        if state.startswith(_CONFIG) or (not state and _LOGIN.search(text)):
            return ConfigError(message)
        return UnavailableError(message)


class PostgresCatalog(Catalog):
    """The system catalog of Postgres."""

    def exists(self, table: str) -> bool:
        """Whether there is such a table."""
        return self._session.execute("SELECT to_regclass(?) IS NOT NULL", (table,))[0][0] is True

    def describe(self, table: str) -> TableInfo | None:
        """Read from the catalog."""
        name = (table,)
        columns = tuple(ColumnInfo(*each) for each in self._session.execute(_COLUMNS, name))
        if not columns:
            return None
        indexes = self._session.execute(_INDEXES, name)
        return TableInfo(
            columns,
            unique=tuple(frozenset(names) for _, _, usable, names in indexes if usable),
            primary=next((tuple(names) for _, primary, _, names in indexes if primary), ()),
            foreign=tuple(name for (name,) in self._session.execute(_FOREIGN, name)),
            other_unique=tuple(name for name, *_ in indexes),
        )

    def missing_privileges(self, table: str, wanted: Sequence[str]) -> list[str]:
        """The privileges that `has_table_privilege` denies."""
        sql = "SELECT has_table_privilege(to_regclass(?), ?)"
        return [each for each in wanted if not self._session.execute(sql, (table, each))[0][0]]

    def created_like(self, target: str, stage: str) -> list[str]:
        """The types of the table, and its CHECK constraints for whole rows; NULL is allowed, since a delete has only its key."""
        created = [f"CREATE TABLE {stage} AS SELECT {_HEAD}, t.* FROM {target} AS t WITH NO DATA"]
        created += [
            f"ALTER TABLE {stage} ADD CHECK (tg_kind = 1 OR tg_unchanged IS NOT NULL OR ({expression}))"
            for (expression,) in self._session.execute(_CHECKS, (target,))
        ]
        return [*created, f"CREATE INDEX ON {stage} (tg_work, tg_chunk)"]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # A lock of the session, taken before the transaction: a transaction that waits for it may not see tables created
        # meanwhile.
        self._session.execute("SELECT pg_advisory_lock(hashtextextended('tidegate', 0))")
        try:
            yield
        finally:
            self._session.execute("SELECT pg_advisory_unlock(hashtextextended('tidegate', 0))")


class PostgresPrepared(PreparedTransactions):
    """Prepared transactions of Postgres."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    def prepare(self, gid: str) -> None:
        """PREPARE TRANSACTION."""
        self._session.execute(f"PREPARE TRANSACTION '{gid}'")

    def finish(self, gid: str, *, commit: bool) -> bool:
        """COMMIT PREPARED, or ROLLBACK PREPARED."""
        return self._session.finish_prepared(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{gid}'")

    def begun_with(self, prefix: str) -> list[tuple[str, int]]:
        """The transactions in `pg_prepared_xacts`."""
        sql = (
            "SELECT gid, (extract(epoch FROM clock_timestamp() - prepared) * 1000)::bigint FROM pg_prepared_xacts "
            "WHERE database = current_database() AND starts_with(gid, ?)"
        )
        return cast(list[tuple[str, int]], self._session.execute(sql, (prefix,)))

    def limit(self) -> int:
        """`max_prepared_transactions`."""
        return int(self._session.execute("SHOW max_prepared_transactions")[0][0])


def _sql(sql: str, values: Sequence[Any]) -> bytes:
    return (sql.replace("?", "%s") if values else sql).encode()
