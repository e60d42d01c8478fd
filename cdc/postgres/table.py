"""Table factory `postgres-cdc`: the rows of tables and their changes, under Flink CDC's option keys.

Example:
    >>> from tidegate.connectors.table_spi import table_source
    >>> from tidegate.schema import Schema
    >>> schema = Schema.new_builder().column("id", "INT NOT NULL").column("name", "STRING").primary_key("id").build()
    >>> options = {"connector": "postgres-cdc", "hostname": "db", "username": "cdc", "password": "secret"}
    >>> options |= {"database-name": "shop", "schema-name": "public", "table-name": "users", "slot.name": "users"}
    >>> source = table_source(TableDescription("users", schema, options))
    >>> print(source.changelog_mode)
    [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from tidegate.cdc.postgres.options import PostgresOptions, StartMode
from tidegate.cdc.postgres.source import PostgresSource
from tidegate.cdc.table_rows import METADATA, TableRows
from tidegate.changelog import ChangelogMode
from tidegate.connectors.table_spi import ScanTableSource, TableDescription
from tidegate.errors import ConfigError
from tidegate.logical_types import LogicalType
from tidegate.options import check_ranges, option, required

__all__ = ["PostgresCdcOptions", "PostgresCdcTable", "PostgresCdcTableSource"]

_STARTS: Final[Mapping[str, StartMode]] = {
    "initial": "initial",
    "latest-offset": "latest",
    "snapshot": "initial-only",
}


@dataclass(frozen=True)
class PostgresCdcOptions:
    """Options of a table."""

    hostname: str = required("hostname", "the server")
    username: str = required("username", "the user, with LOGIN and REPLICATION")
    database: str = required("database-name", "the database")
    schema: str = required("schema-name", "the schema, a regular expression")
    table: str = required("table-name", "the table, a regular expression")
    slot: str = required("slot.name", "the replication slot")
    password: str = option("password", "", "the password", shown=False)
    port: int = option("port", 5432, "the port of the server")
    plugin: Literal["pgoutput"] = option("decoding.plugin.name", "pgoutput", "the output plugin of the slot")
    publication: str = option("publication.name", "", "the publication; as the slot if empty")
    changelog: Literal["all", "upsert"] = option(
        "changelog-mode", "all", "whether updates have the row before, which needs replica identity FULL"
    )
    start: Literal["initial", "latest-offset", "snapshot"] = option(
        "scan.startup.mode", "initial", "load and follow, follow from now on, or load and end"
    )
    chunk_rows: int = option("scan.incremental.snapshot.chunk.size", 100_000, "rows read in one transaction")
    parallelism: int | None = option(
        "scan.parallelism", None, "number of readers of the load; that of the job if unset"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class PostgresCdcTableSource(ScanTableSource):
    """The declared columns of the table; columns that are not projected are read and dropped."""

    source: PostgresSource
    rows: TableRows
    parallelism: int | None

    @property
    def changelog_mode(self) -> ChangelogMode:
        """All row kinds, or those of upsert."""
        return self.rows.changelog_mode

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        """Metadata columns: table and commit time of a row."""
        return METADATA

    def with_metadata(self, keys: Sequence[str]) -> PostgresCdcTableSource:
        """The same rows, with these metadata columns after their columns."""
        return replace(self, rows=replace(self.rows, metadata=tuple(keys)))

    def with_projection(self, columns: Sequence[str]) -> PostgresCdcTableSource:
        """The same rows in these columns."""
        types = dict(zip(self.rows.columns, self.rows.types, strict=True))
        return replace(
            self,
            rows=replace(self.rows, columns=tuple(columns), types=tuple(types[name] for name in columns)),
        )

    def scan(self) -> PostgresSource:
        """The source."""
        return replace(self.source, deserializer=self.rows)


class PostgresCdcTable:
    """Creates table sources for tables of Postgres."""

    options: ClassVar[type[Any]] = PostgresCdcOptions

    def source(self, table: TableDescription, options: PostgresCdcOptions) -> PostgresCdcTableSource:
        """A source of the physical columns.

        Raises:
            ConfigError: upsert has no primary key.
        """
        upsert = options.changelog == "upsert"
        if upsert and table.schema.primary_key is None:
            raise ConfigError(
                f"table {table.name} has changelog-mode 'upsert' and no primary key, which identifies the row that an update replaces; "
                "declare PRIMARY KEY (...) NOT ENFORCED"
            )
        connect = {
            "host": options.hostname,
            "port": options.port,
            "dbname": options.database,
            "user": options.username,
            **({"password": options.password} if options.password else {}),
        }
        columns = table.schema.physical
        rows = TableRows(
            tuple(column.name for column in columns), tuple(column.type for column in columns), upsert=upsert
        )
        source = PostgresSource(
            connect,
            [rf"(?:{options.schema})\.(?:{options.table})"],
            options.slot,
            options.publication,
            options=PostgresOptions(start=_STARTS[options.start], chunk_rows=options.chunk_rows),
        )
        return PostgresCdcTableSource(source, rows, options.parallelism)
