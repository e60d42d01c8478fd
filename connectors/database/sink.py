"""Database sink: writes records to a table.

Guarantee: exactly once. Rows of a checkpoint become visible after it is decided, in one transaction that also marks them as
committed; or, with positions, at once, and writing them again has no effect.

Example:
    >>> sink = DatabaseSink(Database("postgresql://db/shop"), "orders", ("id", "paid"), key=("id",))
    >>> sink.delivery, sink.mode, sink.takes, sink.on_branch
    ('exactly-once', 'staged', 'any', 'append')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import xxhash

from tidegate.changelog import RowKinds
from tidegate.components import OptionsOf
from tidegate.connectors.database.bookkeeping import Bookkeeping
from tidegate.connectors.database.database import Database
from tidegate.connectors.database.inspection import check_target, inspected
from tidegate.connectors.database.options import DatabaseSinkOptions, WriteMode
from tidegate.connectors.database.session import ColumnInfo, Session, TableInfo
from tidegate.connectors.database.statements import Shape, qualified
from tidegate.connectors.database.transactions import DatabaseCommitter
from tidegate.connectors.database.writer import DirectWriter, PreparedWriter, StagedWriter
from tidegate.connectors.spi import Delivery, Finding, JobFacts, OnBranch, Sink
from tidegate.errors import ConfigError
from tidegate.ids import OperatorUid, PipelineId
from tidegate.options import altered, filled
from tidegate.twophase.naming import owner_name
from tidegate.twophase.spi import CommitterContext, SinkWriter, WriterContext

__all__ = ["DatabaseSink"]

_GID: Final = "tidegate:"


@dataclass(frozen=True)
class DatabaseSink(Sink):
    """A table as a sink.

    Args:
        database: The database of the table.
        table: Its name, optionally with a schema; case-sensitive.
        columns: The columns that are written. Records are tuples or lists of their values in this order, or `Row`s and
            dictionaries with their names. None is all columns of the table that can be written.
        key: Columns that identify a row: changes update and delete it. The table must have a unique index of exactly these.
            Without a key rows are inserted, and other changes are refused.
        position: Columns whose values grow with each change of a key, such as the position in a log. With them rows are
            visible at once, and a change with an older position than that of its row is ignored.
        options: How to write.

    Raises:
        ConfigError: the columns or the options exclude each other.
    """

    database: Database
    table: str
    columns: Sequence[str] | None = None
    key: Sequence[str] = ()
    position: Sequence[str] = ()
    options: DatabaseSinkOptions = DatabaseSinkOptions()

    def __post_init__(self) -> None:
        for name in ("columns", "key", "position"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise ConfigError(f"database sink {name} is {given!r}; expected a tuple of names")
            object.__setattr__(self, name, None if given is None else tuple(given))
        qualified(self.table)
        for name in (*self.key, *self.position):
            if self.columns is not None and name not in self.columns:
                raise ConfigError(
                    f"database sink: {name!r} is in the key or the position, but not in the columns; got {', '.join(self.columns)}"
                )
        if self.position and (not self.key or set(self.position) & set(self.key)):
            raise ConfigError("database sink: a position needs a key, and columns that are not in the key")
        if self.mode == "positions" and not self.position:
            raise ConfigError("database sink: mode 'positions' needs the columns of the position")
        if self.position and self.mode not in ("positions", "at-least-once"):
            raise ConfigError(
                f"database sink: a position is not used by mode {self.mode!r}; leave one of them out"
            )
        if self.mode == "prepared":
            self._check_prepared()

    @property
    def mode(self) -> WriteMode:
        """How it writes."""
        return self.options.mode or ("positions" if self.position else "staged")

    @property
    def delivery(self) -> Delivery:  # type: ignore[override]  # a property where others have a value
        """The delivery guarantee."""
        return "at-least-once" if self.mode == "at-least-once" else "exactly-once"

    @property
    def takes(self) -> RowKinds:
        """All changes with a key, otherwise insertions."""
        return "any" if self.key else "insert-only"

    @property
    def on_branch(self) -> OnBranch:
        """What happens to rows committed after a checkpoint when this checkpoint is restored."""
        return self.options.on_branch or ("append" if self.key else "refuse")

    def taking_over(self) -> Self:
        """The same sink with `take_over`."""
        return replace(self, options=altered(self.options, take_over=True))

    def with_options(self, options_of: OptionsOf) -> Self:
        """The same sink, with settings for the options that the program leaves open."""
        return replace(self, options=filled(self.options, options_of("connector.database.sink")))

    def open_writer(self, context: WriterContext) -> SinkWriter:
        """Connects.

        Raises:
            ConfigError: the table cannot be written by this sink, or the sink's own tables are missing and cannot be created.
            FencedError: the pipeline has a newer owner.
        """
        session = self.database.connect()
        try:
            return self._writer(session, context)
        except BaseException:
            session.close()
            raise

    def open_committer(self, context: CommitterContext) -> DatabaseCommitter:
        """Commits staged or prepared work; connects on first use."""
        owner = owner_name(context.pipeline, context.uid)
        take_over = self.options.take_over and not context.running
        return DatabaseCommitter(
            self.database.connect,
            self._schema,
            owner,
            self._prefix(context.pipeline, context.uid),
            take_over,
            self.mode != "at-least-once",
            context,
        )

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Checks the database, the table, its key, its constraints and the privileges."""
        session = self.database.connect()
        try:
            yield Finding("database", "ok", f"{session.shown} answers")
            books = Bookkeeping(session, self._schema, owner_name(job.pipeline, job.uid))
            prefix = self._prefix(job.pipeline, job.uid)
            yield from inspected(session, self, books, prefix)
        finally:
            session.close()

    def ddl(self) -> list[str]:
        """The statements that create the sink's own tables, for a user with the privilege; connects to read the table's columns."""
        session = self.database.connect()
        try:
            info = check_target(session, self)
            books = Bookkeeping(session, self._schema, "")
            return [*books.tables.statements(), *self._own(session, books, info)[1]]
        finally:
            session.close()

    def _writer(self, session: Session, context: WriterContext) -> SinkWriter:
        info = check_target(session, self)
        columns = self.written(info)
        shape = Shape(
            self.table, tuple(column.name for column in columns), tuple(self.key), tuple(self.position)
        )
        books = Bookkeeping(session, self._schema, owner_name(context.pipeline, context.uid))
        common: Any = (session, books, shape, columns, context, self.options.buffer_rows)
        if self.mode == "at-least-once":
            return DirectWriter(None, self.options.flush_interval_ms, *common)
        books.tables.create()
        if session.prepared is not None and self.mode == "prepared":
            return PreparedWriter(self._prefix(context.pipeline, context.uid), session.prepared, *common)
        name, statements = self._own(session, books, info)
        session.catalog.create(name, statements)
        if self.mode == "staged":
            return StagedWriter(name, *common)
        return DirectWriter(name, self.options.flush_interval_ms, *common)

    def written(self, info: TableInfo) -> list[ColumnInfo]:
        """The columns that are written, as in the table."""
        known = {column.name: column for column in info.columns}
        names = (
            [name for name, column in known.items() if not column.generated]
            if self.columns is None
            else self.columns
        )
        return [known[name] for name in names]

    def _own(self, session: Session, books: Bookkeeping, info: TableInfo) -> tuple[str, list[str]]:
        """The staging table or the table of deleted keys, and the statements that create it."""
        target = qualified(self.table)
        if self.mode == "positions":
            kept = (*self.key, *self.position)
            gone = books.tables.gone_of(self.table, info, kept)
            return gone, books.tables.gone_statements(gone, target, kept, self.key)
        if self.mode != "staged":
            return "", []
        stage = books.tables.stage_of(self.table, info)
        return stage, session.catalog.created_like(target, stage)

    @property
    def _schema(self) -> str | None:
        front, _, _ = self.table.rpartition(".")
        return self.options.schema or front or None

    def _prefix(self, pipeline: PipelineId, uid: OperatorUid) -> str:
        """The prefix of the names of prepared transactions; it differs for claims of other pipelines."""
        claimed = f"{owner_name(pipeline, uid)} {self._schema or ''}"
        return f"{_GID}{xxhash.xxh3_128_hexdigest(claimed.encode())[:24]}:"

    def _check_prepared(self) -> None:
        if self.key:
            raise ConfigError(
                "database sink: mode 'prepared' supports only insertions; with a key an epoch would wait for the row locks of the one "
                "before; use 'staged', or a position"
            )
        if self.database.dialect == "sqlite":
            raise ConfigError("database sink: SQLite cannot prepare transactions; use mode 'staged'")
