"""Rows of a sink: records converted to tuples of columns, checked, and folded to one row per key.

Example:
    >>> folded = FoldedRows((0,))
    >>> folded.add((1, "ada", False), RowKind.INSERT)
    >>> folded.add((1, UNCHANGED, True), RowKind.UPDATE_AFTER)
    >>> folded.add((2, "bob", True), RowKind.DELETE)
    >>> list(folded.staged(7, 0))
    [(7, 0, 0, None, 1, 'ada', True), (7, 0, 1, None, 2, 'bob', True)]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

from tidegate.checks import shorten
from tidegate.connectors.database.session import ColumnInfo
from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.row import Row
from tidegate.unchanged import UNCHANGED

__all__ = ["FoldedRows", "RowReader"]

_JSON: Final = frozenset({"json", "jsonb"})
_WRITE, _DELETE = 0, 1


class RowReader:
    """Converts records to tuples in the order of columns, or refuses them and names table, column and record.

    Args:
        table: The name of the table in messages.
        columns: The columns that are written, as in the database.
        key: The names of the key columns, which every change must have, including deletes.
    """

    def __init__(self, table: str, columns: Sequence[ColumnInfo], key: Collection[str]) -> None:
        self._table = table
        self._names = [column.name for column in columns]
        self._key = [place for place, column in enumerate(columns) if column.name in key]
        self._required = [
            place for place, column in enumerate(columns) if not column.nullable or place in self._key
        ]
        self._json = [place for place, column in enumerate(columns) if column.type in _JSON]

    def read_all(self, records: Sequence[Any], kinds: Sequence[RowKind] | None) -> list[tuple[Any, ...]]:
        """The values of all records; raises as `read`."""
        width = len(self._names)
        if not self._json and not any(
            type(each) is not tuple or len(each) != width or None in each for each in records
        ):
            return list(records)
        return [
            self.read(each, kind)
            for each, kind in zip(records, kinds or repeat(RowKind.INSERT), strict=False)
        ]

    def read(self, record: Any, kind: RowKind) -> tuple[Any, ...]:
        """The values of a record.

        Raises:
            RecordError: it lacks a column, has other fields, or None in a NOT NULL column.
        """
        row = record if type(record) is tuple else self._tuple(record)
        if len(row) != len(self._names):
            raise self._refused(f"has {len(row)} values; expected {len(self._names)}: {self._shown}", record)
        if None in row:
            for place in self._key if kind is RowKind.DELETE else self._required:
                if row[place] is None:
                    what = f"column {self._names[place]!r} is None; expected a value, since the column is NOT NULL or a key"
                    raise self._refused(what, record)
        return self._encoded(row) if self._json else row

    def _tuple(self, record: Any) -> tuple[Any, ...]:
        if isinstance(record, dict):
            values: Any = record
        elif type(record) is Row and record.names:
            values = record.as_dict()
        elif isinstance(record, Row | list | tuple):
            return tuple(record)
        else:
            raise self._refused(
                f"is of class {type(record).__name__}; expected a tuple, a Row or a dictionary", record
            )
        try:
            found = tuple(values[name] for name in self._names)
        except KeyError as missing:
            raise self._refused(f"has no field {missing.args[0]!r}; expected {self._shown}", record) from None
        if len(values) != len(found):
            extra = next(name for name in values if name not in self._names)
            raise self._refused(
                f"has a field {extra!r}, which is not written; expected {self._shown}", record
            )
        return found

    def _encoded(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for place in self._json:
            if isinstance(values[place], dict | list):
                values[place] = json.dumps(values[place])
        return tuple(values)

    @property
    def _shown(self) -> str:
        return ", ".join(self._names)

    def _refused(self, what: str, record: Any) -> RecordError:
        return RecordError(f"table {self._table}: a record {what}; the record is {shorten(record)}")


class FoldedRows:
    """The last change of each key, folded from many changes.

    Args:
        key: The indexes of the key columns.
        position: The indexes of the position: a change with an older position than that of its key is ignored.
    """

    def __init__(self, key: Sequence[int], position: Sequence[int] = ()) -> None:
        self._key: Callable[[tuple[Any, ...]], Any] = itemgetter(*key)
        self._position: Callable[[tuple[Any, ...]], Any] | None = itemgetter(*position) if position else None
        self._rows: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def fits(self, row: tuple[Any, ...]) -> bool:
        """Whether a row can be folded: after a delete there are no values for UNCHANGED columns."""
        before = self._rows.get(self._key(row))
        return before is None or before[0] == _WRITE or UNCHANGED not in row

    def add(self, row: tuple[Any, ...], kind: RowKind) -> None:
        """Add a change; UPDATE_BEFORE is ignored."""
        if kind is RowKind.UPDATE_BEFORE:
            return
        key = self._key(row)
        self.changes += 1
        before = self._rows.get(key)
        if before is not None:
            if self._position is not None and self._position(row) < self._position(before[1]):
                return
            if kind is not RowKind.DELETE and UNCHANGED in row:
                row = tuple(old if new is UNCHANGED else new for old, new in zip(before[1], row, strict=True))
        self._rows[key] = (_DELETE if kind is RowKind.DELETE else _WRITE, row)

    def deletes(self) -> bool:
        """Whether there are deletes."""
        return any(kind == _DELETE for kind, _ in self._rows.values())

    def unchanged(self) -> list[str]:
        """The sets of UNCHANGED columns of rows, each as in `tg_unchanged`."""
        rows = (row for kind, row in self._rows.values() if kind == _WRITE and UNCHANGED in row)
        return sorted({_left(row) for row in rows})

    def staged(self, work: int, chunk: int) -> Iterator[tuple[Any, ...]]:
        """The rows in the form of the staging table."""
        for kind, row in self._rows.values():
            if UNCHANGED not in row:
                yield (work, chunk, kind, None, *row)
                continue
            left = _left(row) if kind == _WRITE else None
            yield (work, chunk, kind, left, *(None if value is UNCHANGED else value for value in row))

    def clear(self) -> None:
        """Remove all rows."""
        self._rows.clear()
        self.changes = 0


def _left(row: tuple[Any, ...]) -> str:
    return ",".join(str(place) for place, value in enumerate(row) if value is UNCHANGED)
