"""Change events: what happened to one row of a database table, and where the database's log says so.

A source of changes emits rows with their kinds in the column `Batch.kinds`. A `ChangeEvent` is the same change as one
record, with both images of the row, its table and its position, for programs that need more than the row.

Example:
    >>> event = ChangeEvent(
    ...     Op.UPDATE, TableId("shop", "public", "users"), {"id": 1, "name": "ada"}, {"id": 1, "name": "eve"}, (7, 0)
    ... )
    >>> [(str(kind), row) for kind, row in event.changes()]
    [('-U', {'id': 1, 'name': 'ada'}), ('+U', {'id': 1, 'name': 'eve'})]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tidegate.classes import register_class
from tidegate.elements import RowKind

__all__ = ["ChangeEvent", "Op", "Position", "TableId"]

Position: TypeAlias = tuple[int, ...]
"""Place of a change in the log of its database. Positions are compared only with positions of the same log."""


class Op(Enum):
    """Operation of a change event, with Debezium's letters."""

    READ = "r"
    """A row of the first load."""
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    """All rows of the table are gone; the event has no images."""


@register_class
class TableId(NamedTuple):
    """Full name of a table. A part is empty where the database system does not have it."""

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(filter(None, self))


@register_class
class ChangeEvent(msgspec.Struct, frozen=True):
    """One change of one row.

    Args:
        op: The operation.
        table: The table of the row.
        before: The row before the change: all columns, or only those of the replica identity; None if unknown.
        after: The row after the change; None for a deletion. A column may be `tidegate.unchanged.UNCHANGED`.
        position: Place in the log; empty if unknown.
        ts_ms: When the change was committed in the database.
        transaction: Id of the transaction in the database; empty for rows of the first load.
        source: More about its origin, as the database system names it.
    """

    op: Op
    table: TableId
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    position: Position = ()
    ts_ms: int | None = None
    transaction: str = ""
    source: Mapping[str, Any] = {}

    def changes(self) -> Iterator[tuple[RowKind, Mapping[str, Any]]]:
        """The changes of rows it stands for: -U only where the row before is known."""
        match self.op:
            case Op.READ | Op.CREATE if self.after is not None:
                yield RowKind.INSERT, self.after
            case Op.UPDATE if self.after is not None:
                if self.before is not None:
                    yield RowKind.UPDATE_BEFORE, self.before
                yield RowKind.UPDATE_AFTER, self.after
            case Op.DELETE if self.before is not None:
                yield RowKind.DELETE, self.before
