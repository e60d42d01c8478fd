"""Rows for the table layer: tuples of the declared columns and the requested metadata.

Example:
    >>> from tidegate.cdc.change import TableId
    >>> users = CapturedTable(TableId("shop", "public", "users"), ("id", "name"), ("id",), (DataTypes.INT(), DataTypes.STRING()))
    >>> rows = TableRows(("name",), (DataTypes.STRING(),), metadata=("table_name",))
    >>> rows.loaded(users, [(1, "ada")])
    [('ada', 'users')]
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.cdc.records import CapturedTable, ChangeDeserializer, ChangeOrigin, RowsOfChange
from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError
from tidegate.logical_types import DataTypes, LogicalType
from tidegate.type_values import row_converter
from tidegate.unchanged import UNCHANGED

__all__ = ["METADATA", "TableRows"]

METADATA: Final[Mapping[str, LogicalType]] = {
    "database_name": DataTypes.STRING().not_null(),
    "schema_name": DataTypes.STRING().not_null(),
    "table_name": DataTypes.STRING().not_null(),
    "op_ts": DataTypes.TIMESTAMP_LTZ(3).not_null(),
    "row_kind": DataTypes.STRING().not_null(),
}
"""Metadata columns of a row; `op_ts` is its commit time, 1970 for rows of the first load."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class TableRows(ChangeDeserializer):
    """Converts changes to such rows. Several tables can be read as one if all have the columns.

    Args:
        columns: Names of columns, in order.
        types: Their declared types. A value is converted without loss, or refused.
        metadata: Keys of `METADATA`.
        upsert: Whether an update is only the row after it, and a deletion has only its key columns. Otherwise the log must have
            all columns of the row before.
    """

    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    metadata: tuple[str, ...] = ()
    upsert: bool = False
    _opened: dict[int, _TableReader] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Of each version of a table, by its identity: converters are made once and not for each change."""

    def __reduce__(self) -> tuple[Any, ...]:
        return TableRows, (self.columns, self.types, self.metadata, self.upsert)

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Upsert has no -U."""
        return ChangelogMode.upsert(key_only_deletes=True) if self.upsert else ChangelogMode.all()

    @property
    def needs_before(self) -> bool:
        """Whether the log must have the row before each change."""
        return not self.upsert

    def loaded(self, table: CapturedTable, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Rows to insert.

        Raises:
            RecordError: a value is not of the declared type.
        """
        whole, extra = self._reader(table).whole, self._extra(table, RowKind.INSERT, ChangeOrigin())
        return [whole(row) + extra for row in rows]

    def changed(
        self, table: CapturedTable, rows: RowsOfChange, origin: ChangeOrigin
    ) -> list[tuple[Any, RowKind]]:
        """The rows with their kinds.

        Raises:
            RecordError: a value is not of the declared type, or the log does not have it.
        """
        reader = self._reader(table)
        found: list[tuple[Any, RowKind]] = []
        for kind, row in rows:
            if self.upsert and kind is RowKind.UPDATE_BEFORE:
                continue
            values = reader.key(row) if self.upsert and kind is RowKind.DELETE else reader.whole(row)
            found.append((values + self._extra(table, kind, origin), kind))
        return found

    def truncated(self, table: CapturedTable, origin: ChangeOrigin) -> None:
        """None: no row can represent it."""

    def _reader(self, table: CapturedTable) -> _TableReader:
        known = self._opened.get(id(table))
        if known is None:
            known = self._opened[id(table)] = _TableReader(self.columns, self.types, table)
        return known

    def _extra(self, table: CapturedTable, kind: RowKind, origin: ChangeOrigin) -> tuple[Any, ...]:
        if not self.metadata:
            return ()
        known = {
            "database_name": table.id.database,
            "schema_name": table.id.schema,
            "table_name": table.id.table,
            "op_ts": _EPOCH + datetime.timedelta(milliseconds=origin.ts_ms or 0),
            "row_kind": kind.short,
        }
        return tuple([known[key] for key in self.metadata])


class _TableReader:
    """Makes the declared columns of the rows of one version of a table.

    Raises:
        ConfigError: the table does not have a column.
    """

    def __init__(
        self, columns: tuple[str, ...], types: tuple[LogicalType, ...], table: CapturedTable
    ) -> None:
        missing = [name for name in columns if name not in table.columns]
        if missing:
            raise ConfigError(
                f"table {table.id} has no column {missing[0]!r}; expected one of {', '.join(table.columns)}; correct the schema"
            )
        self._table, self._columns = table, columns
        self._places = [table.columns.index(name) for name in columns]
        self._in_key = [name in table.key for name in columns]
        self._convert = row_converter(columns, types)

    def whole(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """All declared columns.

        Raises:
            RecordError: a value is not of the declared type, or the log does not have it.
        """
        values = tuple([row[place] for place in self._places])
        if UNCHANGED in values:
            raise RecordError(
                f"table {self._table.id}: the log does not have column {self._columns[values.index(UNCHANGED)]!r}, which the "
                "update did not change; set replica identity FULL for the table"
            )
        made: tuple[Any, ...] = self._convert(values)
        return made

    def key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key columns, and None in all others."""
        return tuple(
            [row[place] if kept else None for place, kept in zip(self._places, self._in_key, strict=True)]
        )
