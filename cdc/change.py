"""Change events: one change of one row of a database table, with its position in the database's log.

A source of changes emits rows with their kinds in the column `Batch.kinds`. A `ChangeEvent` is the same change as one
record, with the row before and after, its table and its position, for programs that need more than the row.

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
    """A TRUNCATE: all rows of the table were deleted; the event has no rows."""


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
        source: More about its origin, by the names of the database system.
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
        """The change as rows with kinds: -U only if the row before is known."""
        match self.op:
            case Op.READ | Op.CREATE if self.after is not None:
                yield RowKind.INSERT, self.after
            case Op.UPDATE if self.after is not None:
                if self.before is not None:
                    yield RowKind.UPDATE_BEFORE, self.before
                yield RowKind.UPDATE_AFTER, self.after
            case Op.DELETE if self.before is not None:
                yield RowKind.DELETE, self.before
