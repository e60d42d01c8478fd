"""Postgres source: loads tables and then follows their changes through logical replication.

Guarantee: replayable from any checkpoint whose position the slot still has, so exactly once in the pipeline; changes come in
commit order. One reader reads the log; all readers load.

Example:
    >>> source = PostgresSource({"host": "db", "dbname": "shop", "user": "cdc", "password": "secret"}, ["public.orders"], "orders")
    >>> source.bounded, "secret" in repr(source)
    (False, False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegate.cdc.postgres.enumerator import PostgresEnumerator
from tidegate.cdc.postgres.options import PostgresOptions
from tidegate.cdc.postgres.reader import PostgresReader
from tidegate.cdc.postgres.split import PostgresSplit
from tidegate.cdc.records import ChangeDeserializer, Rows
from tidegate.changelog import ChangelogMode
from tidegate.components import OptionsOf
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source
from tidegate.errors import ConfigError
from tidegate.options import filled

if TYPE_CHECKING:
    from tidegate.cdc.postgres.database import Database
    from tidegate.cdc.postgres.source_builder import PostgresSourceBuilder

__all__ = ["PostgresSource"]


@dataclass(frozen=True)
class PostgresSource(Source[PostgresSplit]):
    """Tables of one database.

    Args:
        connect: Connection parameters of libpq, such as host, port, dbname, user, password and sslmode; never shown.
        tables: Regular expressions for whole names, `schema.table`.
        slot: The replication slot; created at the first start.
        publication: The publication; created at the first start if it does not exist. By default it has the name of the slot.
        deserializer: Converts rows and changes to records.
        options: The options of the source.

    Raises:
        ConfigError: there are no tables, or no slot.
    """

    connect: Mapping[str, Any] = field(repr=False)
    tables: Sequence[str]
    slot: str
    publication: str = ""
    deserializer: ChangeDeserializer = field(default_factory=Rows)
    options: PostgresOptions = PostgresOptions()

    split_type = PostgresSplit
    continuous = True

    def __post_init__(self) -> None:
        if not self.tables:
            raise ConfigError("postgres source has no tables; expected names such as 'public.orders'")
        if not self.slot:
            raise ConfigError("postgres source has no slot; expected the name of a replication slot")
        object.__setattr__(self, "tables", tuple(self.tables))
        if not self.publication:
            object.__setattr__(self, "publication", self.slot)

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """A builder with Flink CDC's names."""
        from tidegate.cdc.postgres.source_builder import PostgresSourceBuilder

        return PostgresSourceBuilder()

    @property
    def bounded(self) -> bool:  # type: ignore[override] # follows from the options
        """Whether it ends after the first load."""
        return self.options.start == "initial-only"

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of the deserializer's records."""
        return self.deserializer.changelog_mode

    def with_options(self, options_of: OptionsOf) -> PostgresSource:
        """The same source, with settings for options that the program does not set."""
        return replace(self, options=filled(self.options, options_of("connector.postgres-cdc")))

    def open_enumerator(
        self, context: EnumeratorContext[PostgresSplit], restored: bytes | None
    ) -> PostgresEnumerator:
        """Plans the first load."""
        from tidegate.cdc.postgres.server import Server, claim_of

        claim = claim_of(self.slot, context.owner) if context.owner else ""
        server = Server(self._database(), self.slot, claim)
        return PostgresEnumerator(context, server, restored, follows=not self.bounded)

    def open_reader(self, context: ReaderContext) -> PostgresReader:
        """Reads chunks and the log."""
        from tidegate.cdc.postgres.connection import Connections

        connections = Connections(self._database(), context.clock)
        return PostgresReader(
            connections, self.deserializer, skip_truncate=self.options.on_truncate == "skip"
        )

    def _database(self) -> Database:
        from tidegate.cdc.postgres.database import Database

        return Database(
            self.connect,
            self.publication,
            self.tables,
            self.options,
            needs_before=self.deserializer.needs_before,
        )
