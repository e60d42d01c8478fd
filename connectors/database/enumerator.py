"""Enumerator of a database source: cuts a table into ranges of a column when it starts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate.connectors.base import ListEnumerator
from tidegate.connectors.database.split import TableSplit
from tidegate.connectors.database.statements import qualified, quoted
from tidegate.connectors.spi import EnumeratorContext
from tidegate.errors import ConfigError
from tidegate.ids import SplitId

if TYPE_CHECKING:
    from tidegate.connectors.database.source import DatabaseSource

__all__ = ["TableEnumerator"]


class TableEnumerator(ListEnumerator[TableSplit]):
    """Assigns ranges of about the same width.

    Args:
        source: The source.
        context: How to reach the readers.
        restored: The snapshot of an earlier enumerator; its ranges are unchanged.
    """

    def __init__(
        self, source: DatabaseSource, context: EnumeratorContext[TableSplit], restored: bytes | None
    ) -> None:
        super().__init__(context, (), TableSplit, restored)
        self._source = source
        self._cut = restored is not None

    def start(self) -> None:
        """Query the smallest and the largest value of the column.

        Raises:
            ConfigError: the table or the column does not exist, or the column has another type.
            UnavailableError: the database does not answer.
        """
        if not self._cut:
            self.give_back(self._splits())

    def _splits(self) -> list[TableSplit]:
        source, column = self._source, self._source.partition_column
        if column is None:
            return [TableSplit(SplitId("all"))]
        bounds = source.partition_bounds
        if bounds is not None:
            return _ranges(*bounds, source.partitions)
        session = source.database.connect()
        try:
            name = quoted(column)
            query = (
                f"SELECT min({name}), max({name}), count(*) - count({name}) FROM {qualified(source.table)}"
            )
            low, high, empty = session.execute(query)[0]
        finally:
            session.close()
        if not isinstance(low, int | None) or not isinstance(high, int | None):
            raise ConfigError(
                f"column {column!r} of table {source.table} holds {type(low).__name__}; expected whole numbers to partition the table; "
                "use another column, or none"
            )
        ranges = [] if low is None or high is None else _ranges(low, high, source.partitions)
        return ranges + ([TableSplit(SplitId("null"), empty=True)] if empty else [])


def _ranges(low: int, high: int, parts: int) -> list[TableSplit]:
    """Ranges that together include both bounds."""
    width = high + 1 - low
    bounds = sorted({low + width * part // parts for part in range(parts + 1)})
    return [TableSplit(SplitId(f"{first}-{last}"), first, last) for first, last in pairwise(bounds)]
