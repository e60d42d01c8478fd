"""Connections of a reader to its server: the streams that it reads, and the types of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.cdc.change import TableId
from tidegate.cdc.postgres._client import CopyStream, ReplicationStream
from tidegate.cdc.postgres.catalog import read_key
from tidegate.cdc.postgres.database import Database
from tidegate.cdc.postgres.log_reader import LogTable
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
        database: The database.
        clock: The clock for waits.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @property
    def types(self) -> TypeCatalog:
        """The types of the database."""
        return self._database.types

    def table(self, layout: TableLayout) -> ReadTable:
        """A table of the first load."""
        return captured(self.types, layout.table, layout.columns, layout.key)

    def log_table(self, relation: Relation) -> LogTable | None:
        """A table of the log, if it is read."""
        database = self._database
        if not database.captures(relation.schema, relation.table):
            return None
        if database.needs_before and relation.identity != "f":
            raise ConfigError(
                f"postgres table {relation.schema}.{relation.table} does not log the row before a change any more, which the "
                "records need; set replica identity full"
            )
        if any(oid not in self.types.types and oid >= _FIRST_OWN for _, oid, _ in columns_of(relation)):
            del database.types  # a type that was created after the catalog was read
        columns = columns_of(relation)
        name = TableId(database.name, relation.schema, relation.table)
        key = _key(relation, read_key(database.session, relation.oid))
        about = captured(self.types, name, columns, key)
        return LogTable(relation, row_decoder(str(name), column_decoders(self.types, columns)), about)

    def copy(self, chunk: Chunk) -> CopyStream:
        """The rows of a chunk."""
        return CopyStream(
            self._database.connect, chunk.snapshot, query(chunk.layout, chunk.above, chunk.upto)
        )

    def replicate(self, log: Log) -> ReplicationStream:
        """The log from its position on.

        Raises:
            UnavailableError: another program reads the slot.
        """
        database = self._database
        session = database.session
        free_slot(session, log.slot, log.claim, self._clock, database.timeout_s)
        options = {"proto_version": "1", "publication_names": database.publication}
        if session.version >= _STREAMS:
            streaming = "on" if database.options.streaming else "off"
            options |= {"proto_version": "2", "messages": "on", "streaming": streaming}
        return ReplicationStream(
            database.connect, log.slot, log.claim, log.position.end_lsn, options, self._clock
        )

    def drop_claim(self, claim: str) -> None:
        """Drop the claim of the slot if it exists: from now on checkpoints prove the ownership of the slot."""
        self._database.session.row(_DROP, claim)

    def close(self) -> None:
        """Disconnect."""
        self._database.close()


def _key(relation: Relation, newest: Sequence[str]) -> Sequence[str]:
    """The key of a table at this position of the log. The catalog has the order of its columns, but only their newest names."""
    identity = [column.name for column in relation.columns if column.in_identity]
    return newest if relation.identity == "f" or set(newest) == set(identity) else identity


_FIRST_OWN: Final = 16_384
"""The smallest oid of user-defined objects."""
_STREAMS: Final = 140_000
"""From this version on the server can send logical messages and open transactions."""
