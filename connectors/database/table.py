"""Table factory `jdbc`: tables of Postgres and SQLite, under the option names of Flink's JDBC connector.

A table with a primary key is written by key, one without accepts insertions only.

Example:
    >>> from tidegate.changelog import ChangelogMode
    >>> from tidegate.connectors.table_spi import TableDescription, table_sink
    >>> from tidegate.schema import Schema
    >>> schema = Schema.new_builder().column("id", "BIGINT NOT NULL").column("paid", "BOOLEAN").primary_key("id").build()
    >>> options = {"connector": "jdbc", "url": "jdbc:postgresql://db:5432/shop", "table-name": "orders"}
    >>> print(table_sink(TableDescription("orders", schema, options)).changelog_mode(ChangelogMode.all()))
    [INSERT, UPDATE_AFTER, DELETE]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from tidegate.changelog import ChangelogMode
from tidegate.connectors.database.database import Database
from tidegate.connectors.database.lookup import DatabaseLookup, LookupCache
from tidegate.connectors.database.options import DatabaseSinkOptions, WriteMode
from tidegate.connectors.database.sink import DatabaseSink
from tidegate.connectors.database.source import DatabaseSource
from tidegate.connectors.database.statements import quoted
from tidegate.connectors.table_spi import (
    Comparison,
    Filter,
    IsNull,
    LookupTableSource,
    PushedFilters,
    ScanTableSource,
    TableDescription,
    TableSink,
)
from tidegate.errors import ConfigError
from tidegate.logical_types import CHARACTERS, LogicalType
from tidegate.options import check_ranges, option, required
from tidegate.schema import Schema, check_column

__all__ = ["JdbcTable", "JdbcTableOptions", "JdbcTableSink", "JdbcTableSource"]

_ORDERED: Final = frozenset({"<", "<=", ">", ">="})


@dataclass(frozen=True)
class JdbcTableOptions:
    """Options of a table."""

    url: str = required(
        "url", "the database: jdbc:postgresql://host:port/database or jdbc:sqlite:/path/to/file"
    )
    table_name: str = required("table-name", "the table in the database")
    username: str | None = option("username", None, "the user")
    password: str | None = option("password", None, "the password", shown=False)
    driver: str | None = option("driver", None, "no effect: the URL selects the driver")
    connect_timeout_ms: int = option(
        "connection.max-retry-timeout", 60_000, "how long to wait for a connection"
    )
    partition_column: str | None = option(
        "scan.partition.column", None, "a column of whole numbers to partition the table"
    )
    partitions: int = option("scan.partition.num", 1, "the number of ranges")
    lower_bound: int | None = option(
        "scan.partition.lower-bound", None, "the smallest value that is read", least=-(2**63)
    )
    upper_bound: int | None = option(
        "scan.partition.upper-bound", None, "the largest value that is read", least=-(2**63)
    )
    fetch_size: int = option("scan.fetch-size", 2_000, "number of rows fetched at once")
    auto_commit: bool = option("scan.auto-commit", True, "no effect: rows are read by a cursor")
    lookup_cache: Literal["NONE", "PARTIAL"] = option(
        "lookup.cache", "NONE", "NONE or PARTIAL: whether looked-up rows are cached"
    )
    cache_rows: int | None = option("lookup.partial-cache.max-rows", None, "maximum number of cached keys")
    cache_expire_ms: int | None = option(
        "lookup.partial-cache.expire-after-write", None, "expiry of cached keys; never if unset"
    )
    cache_missing: bool = option(
        "lookup.partial-cache.cache-missing-key", True, "whether keys without rows are cached"
    )
    lookup_retries: int = option("lookup.max-retries", 3, "maximum number of retries of a lookup", least=0)
    buffer_rows: int = option("sink.buffer-flush.max-rows", 10_000, "maximum number of rows in memory")
    flush_interval_ms: int = option(
        "sink.buffer-flush.interval",
        200,
        "maximum time that rows wait in memory, if they are visible at once",
        least=0,
    )
    sink_retries: int = option(
        "sink.max-retries", 3, "no effect: the job's restart strategy applies", least=0
    )
    mode: WriteMode | None = option("sink.mode", None, "positions, staged, prepared or at-least-once")
    position: str | None = option(
        "sink.position", None, "columns whose values grow with each change of a key: a,b"
    )
    parallelism: int | None = option("sink.parallelism", None, "number of writers; that of the job if unset")

    def __post_init__(self) -> None:
        check_ranges(self)
        if (self.lower_bound is None) != (self.upper_bound is None):
            raise ConfigError(
                "options 'scan.partition.lower-bound' and 'scan.partition.upper-bound' need each other; got one; expected both, or none"
            )
        if self.lookup_cache == "PARTIAL" and self.cache_rows is None:
            raise ConfigError(
                "option 'lookup.cache' is PARTIAL; expected 'lookup.partial-cache.max-rows' with it"
            )

    @property
    def database(self) -> Database:
        """The database of the table."""
        return Database(self.url, self.username, self.password, self.connect_timeout_ms)


@dataclass(frozen=True)
class JdbcTableSource(ScanTableSource, LookupTableSource):
    """Table source: a scan, or a lookup by columns."""

    name: str
    schema: Schema
    options: JdbcTableOptions
    columns: tuple[str, ...]
    filters: tuple[Comparison | IsNull, ...] = ()
    limit: int | None = None

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Insertions."""
        return ChangelogMode.insert_only()

    def with_projection(self, columns: Sequence[str]) -> JdbcTableSource:
        """Only these columns are fetched."""
        return replace(self, columns=tuple(columns))

    def with_filters(self, filters: Sequence[Filter]) -> PushedFilters:
        """Comparisons of columns are evaluated by the database, and again by the caller: its collation may differ."""
        taken = [each for each in filters if isinstance(each, Comparison | IsNull) and self._is_pushed(each)]
        source = replace(self, filters=(*self.filters, *taken))
        return PushedFilters(source, tuple(taken), tuple(filters))

    def with_limit(self, rows: int) -> JdbcTableSource:
        """Each range returns at most `limit` rows."""
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def scan(self) -> DatabaseSource:
        """A bounded source of the rows."""
        options = self.options
        bounds = None
        if options.lower_bound is not None and options.upper_bound is not None:
            bounds = (options.lower_bound, options.upper_bound)
        return DatabaseSource(
            options.database,
            options.table_name,
            self.columns,
            options.partition_column,
            options.partitions,
            bounds,
            options.fetch_size,
            self._types,
            tuple(map(_condition, self.filters)),
            self.limit,
        )

    def lookup(self, columns: tuple[str, ...]) -> DatabaseLookup:
        """Finds rows by these columns."""
        options = self.options
        for name in columns:
            check_column(
                name,
                tuple(self._all),
                f"the physical columns of table {self.name}, which is looked up by it",
            )
        cache = None
        if options.lookup_cache == "PARTIAL" and options.cache_rows is not None:
            cache = LookupCache(options.cache_rows, options.cache_expire_ms, options.cache_missing)
        return DatabaseLookup(
            options.database,
            options.table_name,
            self.columns,
            self._types,
            columns,
            options.lookup_retries,
            cache,
        )

    def _is_pushed(self, each: Comparison | IsNull) -> bool:
        if len(each.column) > 1 or (
            isinstance(each, Comparison) and each.operator == "in" and not each.value
        ):
            return False
        ordered = isinstance(each, Comparison) and each.operator in _ORDERED
        return not (ordered and self._all[each.column[0]].root in CHARACTERS)

    @property
    def _all(self) -> dict[str, LogicalType]:
        return {column.name: column.type for column in self.schema.physical}

    @property
    def _types(self) -> tuple[LogicalType, ...]:
        return tuple(self._all[name] for name in self.columns)


@dataclass(frozen=True)
class JdbcTableSink(TableSink):
    """Table sink: writes by the primary key if there is one."""

    schema: Schema
    options: JdbcTableOptions

    def changelog_mode(self, produced: ChangelogMode) -> ChangelogMode:
        """Insertions; with a key also updates, without the rows before them, and deletes."""
        if not self._key:
            return ChangelogMode.insert_only()
        return ChangelogMode.upsert(key_only_deletes=not self._position)

    def sink(self) -> DatabaseSink:
        """Writes rows.

        Raises:
            ConfigError: the options exclude each other.
        """
        options = self.options
        own = DatabaseSinkOptions(
            mode=options.mode, buffer_rows=options.buffer_rows, flush_interval_ms=options.flush_interval_ms
        )
        columns = tuple(column.name for column in self.schema.physical)
        return DatabaseSink(options.database, options.table_name, columns, self._key, self._position, own)

    @property
    def parallelism(self) -> int | None:
        """The number of writers."""
        return self.options.parallelism

    @property
    def _key(self) -> tuple[str, ...]:
        key = self.schema.primary_key
        return () if key is None else key.columns

    @property
    def _position(self) -> tuple[str, ...]:
        said = self.options.position
        return () if said is None else tuple(name.strip() for name in said.split(","))


class JdbcTable:
    """Makes sources and sinks of tables in databases."""

    options: ClassVar[type[Any]] = JdbcTableOptions

    def source(self, table: TableDescription, options: JdbcTableOptions) -> JdbcTableSource:
        """A source of the physical columns.

        Raises:
            ConfigError: the options do not match the schema.
        """
        columns = tuple(column.name for column in table.schema.physical)
        if options.partition_column is not None:
            check_column(
                options.partition_column,
                columns,
                f"the physical columns of table {table.name}, which is partitioned by it",
            )
        made = JdbcTableSource(table.name, table.schema, options, columns)
        made.scan()
        return made

    def sink(self, table: TableDescription, options: JdbcTableOptions) -> JdbcTableSink:
        """A sink for the physical columns.

        Raises:
            ConfigError: the options do not match the schema.
        """
        made = JdbcTableSink(table.schema, options)
        made.sink()
        return made


def _condition(each: Comparison | IsNull) -> tuple[str, tuple[Any, ...]]:
    """A filter in SQL, with the values of its parameters."""
    name = quoted(each.column[0])
    if isinstance(each, IsNull):
        return f"{name} IS NULL", ()
    if each.operator == "in":
        return f"{name} IN ({', '.join('?' * len(each.value))})", tuple(each.value)
    return f"{name} {each.operator} ?", (each.value,)
