"""Builder of the Postgres source under Flink CDC's names.

Example:
    >>> source = (
    ...     PostgresSourceBuilder()
    ...     .hostname("db")
    ...     .database("shop")
    ...     .schema_list("public")
    ...     .table_list("public.orders")
    ...     .username("cdc")
    ...     .password("secret")
    ...     .slot_name("orders")
    ...     .build()
    ... )
    >>> source.tables, source.slot
    (('public.orders',), 'orders')
"""

from __future__ import annotations

from typing import Any, Final, Self

from tidegate.cdc.postgres.options import PostgresOptions, StartMode
from tidegate.cdc.postgres.source import PostgresSource
from tidegate.cdc.records import ChangeDeserializer, Rows
from tidegate.errors import ConfigError
from tidegate.options import altered

__all__ = ["PostgresSourceBuilder", "StartupOptions"]

_PLUGIN: Final = "pgoutput"


class StartupOptions:
    """Start options under Flink CDC's names."""

    @staticmethod
    def initial() -> StartMode:
        """Load the tables, then follow the log."""
        return "initial"

    @staticmethod
    def latest() -> StartMode:
        """Follow the log from now on."""
        return "latest"

    @staticmethod
    def snapshot() -> StartMode:
        """Load the tables and end."""
        return "initial-only"


class PostgresSourceBuilder:
    """Builder of a Postgres source."""

    def __init__(self) -> None:
        self._connect: dict[str, Any] = {"host": "localhost", "port": 5432}
        self._schemas: tuple[str, ...] = ()
        self._tables: tuple[str, ...] = ()
        self._slot = ""
        self._deserializer: ChangeDeserializer = Rows()
        self._options = PostgresOptions()

    def hostname(self, hostname: str) -> Self:
        """The server."""
        self._connect["host"] = hostname
        return self

    def port(self, port: int) -> Self:
        """Its port."""
        self._connect["port"] = port
        return self

    def database(self, database: str) -> Self:
        """The database; a slot belongs to one."""
        self._connect["dbname"] = database
        return self

    def database_list(self, *database_list: str) -> Self:
        """Same as `database`; more than one is refused."""
        if len(database_list) != 1:
            raise ConfigError(
                f"database_list is {database_list}; expected one database, since a slot belongs to one"
            )
        return self.database(*database_list)

    def schema_list(self, *schema_list: str) -> Self:
        """Regular expressions for schemas; all their tables are captured unless `table_list` is set."""
        self._schemas = schema_list
        return self

    def table_list(self, *table_list: str) -> Self:
        """Regular expressions for tables, `schema.table`."""
        self._tables = table_list
        return self

    def username(self, username: str) -> Self:
        """The user, with LOGIN and REPLICATION."""
        self._connect["user"] = username
        return self

    def password(self, password: str) -> Self:
        """Its password; never shown."""
        self._connect["password"] = password
        return self

    def slot_name(self, slot_name: str) -> Self:
        """The replication slot."""
        self._slot = slot_name
        return self

    def decoding_plugin_name(self, decoding_plugin_name: str) -> Self:
        """The output plugin of the slot; only pgoutput is supported."""
        if decoding_plugin_name != _PLUGIN:
            raise ConfigError(
                f"decoding_plugin_name is {decoding_plugin_name!r}; expected {_PLUGIN!r}, which is part of Postgres"
            )
        return self

    def startup_options(self, startup_options: StartMode) -> Self:
        """What to read first."""
        self._options = altered(self._options, start=startup_options)
        return self

    def split_size(self, split_size: int) -> Self:
        """Rows of a table that are read in one transaction."""
        self._options = altered(self._options, chunk_rows=split_size)
        return self

    def deserializer(self, deserializer: ChangeDeserializer) -> Self:
        """Converts rows and changes to records."""
        self._deserializer = deserializer
        return self

    def build(self) -> PostgresSource:
        """The source.

        Raises:
            ConfigError: tables or slot are missing.
        """
        tables = self._tables or tuple(rf"{schema}\..*" for schema in self._schemas)
        return PostgresSource(
            self._connect, tables, self._slot, deserializer=self._deserializer, options=self._options
        )
