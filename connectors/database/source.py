"""Database source: a bounded read of the rows of a table.

Guarantee: bounded; replayable as long as the rows of the table do not change: the position of a row is its number in the order of
the primary key, or of all columns.

Example:
    >>> DatabaseSource(Database("sqlite:/data/shop.db"), "orders", partition_column="id", partitions=4).bounded
    True
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.base import FetchingReader
from tidegate.connectors.database.database import Database
from tidegate.connectors.database.enumerator import TableEnumerator
from tidegate.connectors.database.reader import TableFetcher
from tidegate.connectors.database.serde import RowDecoder, row_decoder
from tidegate.connectors.database.split import TableSplit
from tidegate.connectors.database.statements import qualified
from tidegate.connectors.spi import EnumeratorContext, Finding, JobFacts, ReaderContext, Source
from tidegate.errors import ConfigError
from tidegate.logical_types import LogicalType

__all__ = ["DatabaseSource"]


@dataclass(frozen=True)
class DatabaseSource(Source[TableSplit]):
    """A table as a bounded source of tuples.

    Args:
        database: The database of the table.
        table: Its name, optionally with a schema; case-sensitive.
        columns: The columns that are read; None reads all.
        partition_column: A column of whole numbers; readers share the table by ranges of it.
        partitions: The number of ranges.
        partition_bounds: The smallest and the largest value to read; None queries them and reads all rows.
        fetch_size: The number of rows fetched at once.
        types: The types of the columns, which values are converted to; None keeps the values of the client.
        conditions: Conditions of the query, each with the values of its `?`.
        limit: The maximum number of rows per range.

    Raises:
        ConfigError: the arguments exclude each other.
    """

    database: Database
    table: str
    columns: Sequence[str] | None = None
    partition_column: str | None = None
    partitions: int = 1
    partition_bounds: tuple[int, int] | None = None
    fetch_size: int = 2_000
    types: tuple[LogicalType, ...] | None = None
    conditions: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    limit: int | None = None

    split_type = TableSplit
    bounded = True

    def __post_init__(self) -> None:
        qualified(self.table)
        if self.partitions < 1 or self.fetch_size < 1:
            raise ConfigError(
                f"database source partitions is {self.partitions} and fetch_size {self.fetch_size}; expected 1 or more"
            )
        if self.partition_column is None and (self.partitions > 1 or self.partition_bounds is not None):
            raise ConfigError("database source partitions need a partition_column")
        if self.partition_bounds is not None and self.partition_bounds[0] > self.partition_bounds[1]:
            raise ConfigError(
                f"database source partition_bounds are {self.partition_bounds}; expected the smaller one first"
            )

    def open_enumerator(
        self, context: EnumeratorContext[TableSplit], restored: bytes | None
    ) -> TableEnumerator:
        """Cuts the table into ranges."""
        return TableEnumerator(self, context, restored)

    def open_reader(self, context: ReaderContext) -> FetchingReader[TableSplit]:
        """Reads ranges."""
        return FetchingReader(lambda: TableFetcher(self), TableSplit.after, context)

    def decoder(self) -> RowDecoder | None:
        """The function that converts a row; None if rows are not converted."""
        if self.types is None or self.columns is None:
            return None
        return row_decoder(self.database.dialect, tuple(self.columns), self.types)

    def preflight(self, job: JobFacts) -> Iterator[Finding]:
        """Checks that the table exists and can be read."""
        session = self.database.connect()
        try:
            session.catalog.table(qualified(self.table), self.table)
            if session.catalog.missing_privileges(qualified(self.table), ["SELECT"]):
                remedy = f"GRANT SELECT ON {qualified(self.table)} TO the user of the program"
                yield Finding("table", "problem", f"{self.table} cannot be read: permission denied", remedy)
            else:
                yield Finding("table", "ok", f"{self.table} in {session.shown} can be read")
        finally:
            session.close()
