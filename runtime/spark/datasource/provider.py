"""Spark data source `tidegate`: streams and tables of all connectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tidegate.connectors.base import all_splits
from tidegate.errors import ConfigError
from tidegate.runtime.spark.datasource.records import arrow_schema, read_piece
from tidegate.runtime.spark.datasource.settings import row_source, split
from tidegate.runtime.spark.datasource.sink import StreamWriter, TableWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tidegate.runtime.spark.datasource.stream import StreamReader

__all__ = ["TableReader", "TidegateDataSource"]


class TidegateDataSource(DataSource):
    """`format("tidegate")`: the option `connector` names the connector."""

    @classmethod
    def name(cls) -> str:
        """Its name."""
        return "tidegate"

    def schema(self) -> str:
        """The connector's columns, unless the user sets a schema.

        Raises:
            ConfigError: the connector has no columns of its own.
        """
        settings, _ = split(self.options)
        columns = row_source(settings).columns
        if columns is None:
            raise ConfigError(
                f"connector {settings.connector!r} has no columns of its own; expected some by .schema('id BIGINT, ...')"
            )
        return columns

    def reader(self, schema: StructType) -> TableReader:
        """Reads a table."""
        return TableReader(self.options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Reads a stream.

        Raises:
            ConfigError: PySpark is too old: a source cannot limit how much it reads.
        """
        try:
            from tidegate.runtime.spark.datasource.stream import StreamReader
        except ImportError as error:
            raise ConfigError(
                f"a stream with limits needs PySpark 4.2 or newer; got {pyspark.__version__}; sinks and tables work "
                "with 4.1"
            ) from error
        return StreamReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Writes batches of a stream."""
        return StreamWriter(self.options, schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Writes a table.

        Raises:
            ConfigError: the mode is overwrite.
        """
        if overwrite:
            raise ConfigError("this sink only appends; got mode overwrite; expected .mode('append')")
        return TableWriter(self.options, schema.names)


class TableReader(DataSourceReader):
    """A bounded source as a table: reads the splits that exist when the table is read, each in a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        settings, rest = split(options)
        self._source = row_source(settings).source(rest, bounded=True)
        self._schema = schema

    def partitions(self) -> list[Any]:
        """The current splits."""
        return [InputPartition(each) for each in all_splits(self._source)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a split; Spark asks for none where there are no splits."""
        if partition.value is not None:
            yield from read_piece(self._source, partition.value, arrow_schema(self._schema))
