"""Records that a source of changes emits: rows, or whole change events.

Example:
    >>> from tidegate.logical_types import DataTypes
    >>> users = CapturedTable(TableId("", "public", "users"), ("id", "name"), ("id",), (DataTypes.INT(), DataTypes.STRING()))
    >>> list(Rows().changed(users, [(RowKind.DELETE, (1, "ada"))], ChangeOrigin()))
    [(Row(id=1, name='ada'), <RowKind.DELETE: 3>)]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.cdc.change import ChangeEvent, Op, Position, TableId
from tidegate.changelog import ChangelogMode
from tidegate.elements import RowKind
from tidegate.logical_types import LogicalType
from tidegate.row import Row

__all__ = ["CapturedTable", "ChangeDeserializer", "ChangeOrigin", "Events", "Rows", "RowsOfChange"]

RowsOfChange = Sequence[tuple[RowKind, tuple[Any, ...]]]
"""The row changes of one change: one insertion, update or deletion; -U and +U; or, if the key changed, -D and +I."""


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """The current definition of a captured table.

    Args:
        id: Its full name.
        columns: The names of its columns.
        key: The names of its key columns.
        types: The types of its columns.
    """

    id: TableId
    columns: tuple[str, ...]
    key: tuple[str, ...]
    types: tuple[LogicalType, ...]


class ChangeOrigin(NamedTuple):
    """The origin of a change.

    Args:
        position: Its position in the log; empty for the first load.
        ts_ms: When it was committed.
        transaction: The id of its transaction.
        source: Further metadata of the database system.
    """

    position: Position = ()
    ts_ms: int | None = None
    transaction: str = ""
    source: Mapping[str, Any] = {}


class ChangeDeserializer(ABC):
    """Converts changes to records. Picklable; called by the subtask's thread."""

    @property
    @abstractmethod
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of its records."""

    @property
    def needs_before(self) -> bool:
        """Whether the log must have all columns of the row before each update and deletion."""
        return False

    @abstractmethod
    def loaded(self, table: CapturedTable, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A record for each row of the first load."""

    @abstractmethod
    def changed(
        self, table: CapturedTable, rows: RowsOfChange, origin: ChangeOrigin
    ) -> Iterable[tuple[Any, RowKind]]:
        """The records of one change."""

    @abstractmethod
    def truncated(self, table: CapturedTable, origin: ChangeOrigin) -> Iterable[tuple[Any, RowKind]] | None:
        """The records of a TRUNCATE; None if it cannot be represented."""


class Rows(ChangeDeserializer):
    """`Row` objects with the names of the columns; the row kind is the operation."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Any kind."""
        return ChangelogMode.all()

    def loaded(self, table: CapturedTable, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Rows to insert."""
        columns = table.columns
        return [Row.of(row, columns) for row in rows]

    def changed(
        self, table: CapturedTable, rows: RowsOfChange, origin: ChangeOrigin
    ) -> list[tuple[Any, RowKind]]:
        """The rows with their kinds."""
        columns = table.columns
        return [(Row.of(row, columns), kind) for kind, row in rows]

    def truncated(self, table: CapturedTable, origin: ChangeOrigin) -> None:
        """None: no row can represent it."""


class Events(ChangeDeserializer):
    """`ChangeEvent` objects, emitted as insertions."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Insertions."""
        return ChangelogMode.insert_only()

    def loaded(self, table: CapturedTable, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """READ events."""
        columns, id = table.columns, table.id
        return [ChangeEvent(Op.READ, id, None, dict(zip(columns, row, strict=True))) for row in rows]

    def changed(
        self, table: CapturedTable, rows: RowsOfChange, origin: ChangeOrigin
    ) -> list[tuple[Any, RowKind]]:
        """One event; two if the key changed."""
        events: list[tuple[Any, RowKind]] = []
        before: Mapping[str, Any] | None = None
        for kind, row in rows:
            image = dict(zip(table.columns, row, strict=True))
            if kind is RowKind.UPDATE_BEFORE:
                before = image
            elif kind is RowKind.DELETE:
                events.append((ChangeEvent(Op.DELETE, table.id, image, None, *origin), RowKind.INSERT))
            else:
                op = Op.CREATE if kind is RowKind.INSERT else Op.UPDATE
                events.append((ChangeEvent(op, table.id, before, image, *origin), RowKind.INSERT))
        return events

    def truncated(self, table: CapturedTable, origin: ChangeOrigin) -> list[tuple[Any, RowKind]]:
        """A TRUNCATE event."""
        return [(ChangeEvent(Op.TRUNCATE, table.id, None, None, *origin), RowKind.INSERT)]
