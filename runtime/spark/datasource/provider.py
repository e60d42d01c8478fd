"""The data sources of Spark: `tidegate` for streams and tables of all connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from tidegate.errors import ConfigError
from tidegate.runtime.spark.datasource.settings import row_source, split
from tidegate.runtime.spark.datasource.sink import StreamWriter, TableWriter
from tidegate.runtime.spark.datasource.table import TableReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from tidegate.runtime.spark.datasource.stream import StreamReader

__all__ = ["TidegateDataSource"]


class TidegateDataSource(DataSource):
    """`format("tidegate")`: the option `connector` says what is read or written."""

    @classmethod
    def name(cls) -> str:
        """Its name."""
        return "tidegate"

    def schema(self) -> str:
        """The connector's columns, unless the user says others.

        Raises:
            ConfigError: it has none of its own.
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
            ConfigError: PySpark is too old to let a source say how much it reads.
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
            ConfigError: it shall replace what is there.
        """
        if overwrite:
            raise ConfigError(
                "this sink only adds to what is there; got mode overwrite; expected .mode('append')"
            )
        return TableWriter(self.options, schema.names)
