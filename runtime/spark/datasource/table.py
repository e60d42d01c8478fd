"""A bounded source as a table of Spark: what is there when the table is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidegate.connectors.base import all_splits
from tidegate.runtime.spark.datasource.records import arrow_schema, read_piece
from tidegate.runtime.spark.datasource.settings import row_source, split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["TableReader"]


class TableReader(DataSourceReader):
    """Reads each split in a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        settings, rest = split(options)
        self._source = row_source(settings).source(rest, bounded=True)
        self._schema = schema

    def partitions(self) -> list[Any]:
        """The splits that there are now."""
        return [InputPartition(each) for each in all_splits(self._source)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a split; Spark asks for none where there are no splits."""
        if partition.value is not None:
            yield from read_piece(self._source, partition.value, arrow_schema(self._schema))
