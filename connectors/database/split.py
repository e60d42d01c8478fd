"""Split of a database source: a range of rows, and the number of rows that were read."""

from __future__ import annotations

from tidegate.connectors.spi import Split

__all__ = ["TableSplit"]


class TableSplit(Split, frozen=True, tag=1):
    """Rows with `low <= column < high` in a fixed order, from row `offset` on; without bounds all rows.

    `empty` rows are those whose column is NULL.
    """

    low: int | None = None
    high: int | None = None
    empty: bool = False
    offset: int = 0

    def after(self, position: int) -> TableSplit:
        """The rest after the row at a position."""
        return TableSplit(self.id, self.low, self.high, self.empty, position + 1)
