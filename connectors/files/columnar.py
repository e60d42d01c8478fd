"""Parquet and ORC formats of the file source: rows as dictionaries; the position of a record is its row number.

Example:
    >>> ParquetFormat(columns=("id",), where=[("amount", ">", 100)]).columns
    ('id',)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidegate.connectors.files.reading import Piece, check_columns
from tidegate.connectors.files.split import FileSplit
from tidegate.ids import SplitId

__all__ = ["OrcFormat", "ParquetFormat", "row_parts"]


@dataclass(frozen=True)
class ParquetFormat:
    """Rows of Parquet files, cut into parts between row groups.

    Args:
        columns: The columns that are wanted, the only ones that are read; all if None.
        where: What rows must meet, as pyarrow takes it: `[("amount", ">", 100), ("country", "in", ["at", "ch"])]`. Row
            groups whose statistics rule it out are not read.
    """

    columns: tuple[str, ...] | None = None
    where: list[Any] | None = None

    def __post_init__(self) -> None:
        check_columns("Parquet", self.columns)

    def parts(self, path: str, most: int) -> list[FileSplit]:
        """Row groups of about this total size in bytes."""
        from tidegate.connectors.files import _arrow

        return row_parts(path, _arrow.row_groups(path), most)

    def read(self, split: FileSplit) -> Iterator[Piece]:
        """The rows of a part that are wanted."""
        from tidegate.connectors.files import _arrow

        return _arrow.ParquetPart(split, self.columns, self.where).pieces()


@dataclass(frozen=True)
class OrcFormat:
    """Rows of ORC files, cut into parts between stripes.

    Args:
        columns: The columns that are wanted, the only ones that are read besides those of `where`; all if None.
        where: What rows must meet, as for Parquet; the others are left out before any becomes a dictionary.
    """

    columns: tuple[str, ...] | None = None
    where: list[Any] | None = None

    def __post_init__(self) -> None:
        check_columns("ORC", self.columns)

    def parts(self, path: str, most: int) -> list[FileSplit]:
        """Stripes of about this total size in bytes."""
        from tidegate.connectors.files import _arrow

        return row_parts(path, list(_arrow.stripes(path)), most)

    def read(self, split: FileSplit) -> Iterator[Piece]:
        """The rows of a part that are wanted."""
        from tidegate.connectors.files import _arrow

        return _arrow.OrcPart(split, self.columns, self.where).pieces()


def row_parts(path: str, groups: list[tuple[int, int]], most: int) -> list[FileSplit]:
    """Parts from the rows and bytes of groups that are read as a whole."""
    bounds = [0]
    end = held = 0
    for rows, size in groups:
        if held and held + size > most:
            bounds.append(end)
            held = 0
        end, held = end + rows, held + size
    bounds.append(end)
    return [
        FileSplit(id=SplitId(f"{path}:{at}"), path=path, at=at, stop=stop)
        for at, stop in pairwise(bounds)
        if at < stop
    ]
