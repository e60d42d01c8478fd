"""Captured tables: decoders of their rows, conversion of changes to rows, and the filter of the first load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.cdc.change import Op, TableId
from tidegate.cdc.postgres.log_reader import LogChange, Transaction
from tidegate.cdc.postgres.pgoutput import Relation
from tidegate.cdc.postgres.row_decoder import ColumnDecoder, copy_decoder, unescaped
from tidegate.cdc.postgres.split import KeyText, LoadedChunks, TableLayout
from tidegate.cdc.postgres.types import ColumnType, TypeCatalog
from tidegate.cdc.postgres.visibility import full_xid
from tidegate.cdc.records import CapturedTable, RowsOfChange
from tidegate.cdc.snapshot import LoadedRange, LoadedTable
from tidegate.elements import RowKind
from tidegate.errors import ConfigError
from tidegate.unchanged import UNCHANGED

__all__ = ["CopyDecoder", "LoadFilter", "ReadTable", "captured", "column_decoders", "rows_of"]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A captured table, and the indexes of its key columns; empty if it has no key."""

    captured: CapturedTable
    key_places: tuple[int, ...]


def captured(
    types: TypeCatalog, table: TableId, columns: Sequence[tuple[str, int, int]], key: Sequence[str]
) -> ReadTable:
    """The table with these columns: name, type and type modifier of each."""
    names = tuple(name for name, _, _ in columns)
    logical = tuple(types.column(oid, modifier).logical for _, oid, modifier in columns)
    places = tuple(names.index(name) for name in key if name in names)
    return ReadTable(
        CapturedTable(table, names, tuple(key), logical), places if len(places) == len(key) else ()
    )


def column_decoders(types: TypeCatalog, columns: Sequence[tuple[str, int, int]]) -> list[ColumnDecoder]:
    """The decoder of each column."""
    return [_decoder(name, types.column(oid, modifier)) for name, oid, modifier in columns]


def _decoder(name: str, column: ColumnType) -> ColumnDecoder:
    return ColumnDecoder(name, column.source, column.parse)


def columns_of(relation: Relation) -> list[tuple[str, int, int]]:
    """Name, type and modifier of each column of a table in the log."""
    return [(column.name, column.type_oid, column.modifier) for column in relation.columns]


def rows_of(change: LogChange, key_places: Sequence[int]) -> RowsOfChange:
    """The row changes of a change of the log.

    An update of the key becomes a deletion and an insertion. Values that the log leaves out are filled in from the row before
    if that is complete.
    """
    before, after = change.before, change.after
    if after is None:
        return [] if before is None else [(RowKind.DELETE, before)]
    if change.op is Op.CREATE:
        return [(RowKind.INSERT, after)]
    if before is None:
        return [(RowKind.UPDATE_AFTER, after)]
    if not change.key_only and UNCHANGED in after:
        after = tuple([old if new is UNCHANGED else new for old, new in zip(before, after, strict=True)])
    if any(after[place] not in (before[place], UNCHANGED) for place in key_places):
        return [(RowKind.DELETE, before), (RowKind.INSERT, after)]
    if change.key_only:
        return [(RowKind.UPDATE_AFTER, after)]
    return [(RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, after)]


class LoadFilter:
    """Filter for changes that the first load contains."""

    def __init__(self, types: TypeCatalog, loaded: Sequence[LoadedChunks]) -> None:
        self._tables = {each.layout.table: (each.layout.key, _loaded(types, each)) for each in loaded}
        # Transactions that have to be tested have ids near those that the reads have seen.
        self._near = max((view.xmax for each in loaded for _, view in each.ranges), default=0)

    def missing(self, table: ReadTable, rows: RowsOfChange, transaction: Transaction) -> RowsOfChange:
        """The row changes of a change that the first load does not contain."""
        found = self._tables.get(table.captured.id)
        if found is None:
            return rows
        key, loaded = found
        places = _places(table, key)
        xid = full_xid(transaction.xid, self._near)
        return [
            (kind, row)
            for kind, row in rows
            if not loaded.contains(tuple([row[place] for place in places]), xid)
        ]

    def truncated(self, table: ReadTable, transaction: Transaction) -> bool:
        """Whether the first load contains a TRUNCATE: then it must be left out.

        Raises:
            ConfigError: it happened between the reads of two chunks.
        """
        found = self._tables.get(table.captured.id)
        if found is None:
            return False
        contained = set(found[1].seen_by(full_xid(transaction.xid, self._near)))
        if len(contained) > 1:
            raise ConfigError(
                f"table {table.captured.id} was truncated while it was loaded, so some of its rows were read before and some "
                "after the TRUNCATE; start with a first load"
            )
        return contained == {True}


def _places(table: ReadTable, key: Sequence[str]) -> Sequence[int]:
    """The indexes of the key that a table was loaded by; its columns may have been renamed."""
    columns = table.captured.columns
    if all(name in columns for name in key):
        return [columns.index(name) for name in key]
    if len(key) == 1 == len(table.key_places):
        return table.key_places
    raise ConfigError(
        f"table {table.captured.id} was loaded by the key {', '.join(key)}, and its log has the key "
        f"{', '.join(table.captured.key) or 'of no columns'}; start with a first load"
    )


def _loaded(types: TypeCatalog, chunks: LoadedChunks) -> LoadedTable:
    key = _key_columns(types, chunks.layout)
    return LoadedTable(
        [
            LoadedRange(
                None
                if upto is None
                else tuple(column.parse(text) for column, text in zip(key, upto, strict=True)),
                view,
            )
            for upto, view in chunks.ranges
        ]
    )


def _key_columns(types: TypeCatalog, layout: TableLayout) -> list[ColumnType]:
    by_name = {name: types.column(oid, modifier) for name, oid, modifier in layout.columns}
    return [by_name[name] for name in layout.key]


class CopyDecoder:
    """Decodes the rows of a chunk in COPY's text form."""

    def __init__(self, types: TypeCatalog, layout: TableLayout) -> None:
        name = f"{layout.table.schema}.{layout.table.table}"
        self._decode = copy_decoder(name, column_decoders(types, layout.columns))
        self._key_places = layout.key_places

    def rows(self, lines: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """The rows of these lines.

        Raises:
            RecordError: a value cannot be read.
        """
        return self._decode(lines)

    def key(self, line: bytes) -> KeyText:
        """The key of a line, in the server's text form."""
        fields = line.split(b"\t")
        return tuple(unescaped(fields[place]).decode() for place in self._key_places)
