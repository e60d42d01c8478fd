"""Splits of the Postgres source: chunks of tables for the first load, and the log that is read after them."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidegate.cdc.change import TableId
from tidegate.cdc.postgres.log_reader import LogPosition
from tidegate.cdc.postgres.visibility import TransactionView
from tidegate.connectors.spi import Split
from tidegate.ids import SplitId

__all__ = ["Chunk", "KeyText", "LoadedChunks", "Log", "PostgresSplit", "TableLayout"]

KeyText: TypeAlias = tuple[str, ...]
"""Values of key columns, as the server writes them."""


class TableLayout(msgspec.Struct, frozen=True, array_like=True):
    """The columns, key and filter of a table's load.

    Args:
        table: Its full name.
        columns: Name, type and type modifier of each column.
        key: The names of the key columns, in the order of the key.
        condition: The row filter of the publication, empty if there is none.
        by_text: The key columns that are compared by the bytes of their text.
    """

    table: TableId
    columns: tuple[tuple[str, int, int], ...]
    key: tuple[str, ...]
    condition: str = ""
    by_text: tuple[str, ...] = ()

    @property
    def key_places(self) -> tuple[int, ...]:
        """The indexes of the key columns among the columns."""
        names = [name for name, _, _ in self.columns]
        return tuple(names.index(name) for name in self.key)


class Chunk(msgspec.Struct, frozen=True, tag="chunk"):
    """Rows of a table whose keys are above `above` and up to `upto`; None is unbounded.

    Args:
        layout: The columns and key of the table.
        above: The last key that was read; advances while the chunk is read.
        upto: The last key of the chunk.
        snapshot: The exported snapshot to read in; it exists while the enumerator that opened it does.
        view: The transactions that this snapshot has seen.
    """

    layout: TableLayout
    above: KeyText | None
    upto: KeyText | None
    snapshot: str
    view: TransactionView


class LoadedChunks(msgspec.Struct, frozen=True, array_like=True):
    """The chunks of a table that were read: the last key and the view of each, in the order of the keys."""

    layout: TableLayout
    ranges: tuple[tuple[KeyText | None, TransactionView], ...]


class Log(msgspec.Struct, frozen=True, tag="log"):
    """The log from a position on.

    Args:
        slot: The slot to read.
        position: The position to continue from.
        loaded: The loaded chunks; empty when the log has passed `complete_at`.
        complete_at: The position from which on no transaction is contained in the first load.
        claim: The claim of the slot, dropped after the first checkpoint.
    """

    slot: str
    position: LogPosition
    loaded: tuple[LoadedChunks, ...] = ()
    complete_at: int = 0
    claim: str = ""


class PostgresSplit(Split, frozen=True, tag_field="v", tag=1):
    """A split of the source: a chunk or the log."""

    part: Chunk | Log

    @staticmethod
    def log(log: Log) -> PostgresSplit:
        """The split of the log, read after all tables are loaded."""
        return PostgresSplit(SplitId(f"log:{log.slot}"), log)

    @staticmethod
    def chunk(number: int, chunk: Chunk) -> PostgresSplit:
        """A chunk of the first load."""
        return PostgresSplit(PostgresSplit.name_of(chunk.layout, number), chunk)

    @staticmethod
    def name_of(layout: TableLayout, number: int) -> SplitId:
        """The id of a chunk."""
        return SplitId(f"{layout.table.schema}.{layout.table.table}:{number}")
