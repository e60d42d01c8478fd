"""Connections of a reader to its server: the streams that it reads, and the types of their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from tidegate.cdc.change import TableId
from tidegate.cdc.postgres._client import CopyStream, ReplicationStream, Session
from tidegate.cdc.postgres.catalog import read_key, read_types
from tidegate.cdc.postgres.log_reader import LogTable
from tidegate.cdc.postgres.options import PostgresOptions
from tidegate.cdc.postgres.pgoutput import Relation
from tidegate.cdc.postgres.row_decoder import row_decoder
from tidegate.cdc.postgres.server import free_slot, query
from tidegate.cdc.postgres.split import Chunk, Log, TableLayout
from tidegate.cdc.postgres.tables import ReadTable, captured, column_decoders, columns_of
from tidegate.cdc.postgres.types import TypeCatalog
from tidegate.clock import Clock
from tidegate.errors import ConfigError

__all__ = ["Connections"]

_DROP: Final = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"


class Connections:
    """Opens the streams of a reader.

    Args:
        connect: Connection parameters of libpq.
        publication: The publication of the slot.
        tables: Regular expressions for whole names, `schema.table`.
        options: The options of the source.
        clock: The clock for waits.
        needs_before: Whether the log must have the rows before updates and deletions.
    """

    def __init__(
        self,
        connect: Mapping[str, Any],
        publication: str,
        tables: Sequence[str],
        options: PostgresOptions,
        clock: Clock,
        *,
        needs_before: bool = False,
    ) -> None:
        self._needs_before = needs_before
        self._connect = connect
        self._publication = publication
        self._tables = tables
        self._options = options
        self._clock = clock
        self._open: Session | None = None

    @property
    def _session(self) -> Session:
        if self._open is None:
            self._open = Session(self._connect)
        return self._open

    @cached_property
    def types(self) -> TypeCatalog:
        """The types of the database."""
        return TypeCatalog(read_types(self._session), self._options.special_dates)

    def table(self, layout: TableLayout) -> ReadTable:
        """A table of the first load."""
        return captured(self.types, layout.table, layout.columns, layout.key)

    def log_table(self, relation: Relation) -> LogTable | None:
        """A table of the log, if it is read."""
        if not any(re.fullmatch(each, f"{relation.schema}.{relation.table}") for each in self._tables):
            return None
        if self._needs_before and relation.identity != "f":
            raise ConfigError(
                f"postgres table {relation.schema}.{relation.table} does not log the row before a change any more, which the "
                "records need; set replica identity full"
            )
        if any(oid not in self.types.types and oid >= _FIRST_OWN for _, oid, _ in columns_of(relation)):
            del self.types  # a type that was created after the catalog was read
        columns = columns_of(relation)
        name = TableId(self._database, relation.schema, relation.table)
        key = _key(relation, read_key(self._session, relation.oid))
        about = captured(self.types, name, columns, key)
        return LogTable(relation, row_decoder(str(name), column_decoders(self.types, columns)), about)

    def copy(self, chunk: Chunk) -> CopyStream:
        """The rows of a chunk."""
        return CopyStream(self._connect, chunk.snapshot, query(chunk.layout, chunk.above, chunk.upto))

    def replicate(self, log: Log) -> ReplicationStream:
        """The log from its position on.

        Raises:
            UnavailableError: another program reads the slot.
        """
        free_slot(self._session, log.slot, log.claim, self._clock, self._options.connect_timeout_ms / 1_000)
        options = {
            "proto_version": "2" if self._session.version >= _STREAMS else "1",
            "publication_names": self._publication,
        }
        if self._session.version >= _STREAMS:
            options |= {"messages": "on", "streaming": "on" if self._options.streaming else "off"}
        return ReplicationStream(
            self._connect, log.slot, log.claim, log.position.end_lsn, options, self._clock
        )

    def drop_claim(self, claim: str) -> None:
        """Drop the claim of the slot if it exists: from now on checkpoints prove the ownership of the slot."""
        self._session.row(_DROP, claim)

    def close(self) -> None:
        """Disconnect."""
        if self._open is not None:
            self._open.close()

    @cached_property
    def _database(self) -> str:
        ((name,),) = self._session.rows("select current_database()")
        return str(name)


def _key(relation: Relation, newest: Sequence[str]) -> Sequence[str]:
    """The key of a table at this position of the log. The catalog has the order of its columns, but only their newest names."""
    identity = [column.name for column in relation.columns if column.in_identity]
    return newest if relation.identity == "f" or set(newest) == set(identity) else identity


_FIRST_OWN: Final = 16_384
"""The smallest oid of user-defined objects."""
_STREAMS: Final = 140_000
"""From this version on the server can send logical messages and open transactions."""
