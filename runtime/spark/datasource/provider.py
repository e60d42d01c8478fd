"""The data sources of Spark: `tidegate` for streams and tables of all connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from tidegate.runtime.spark.datasource.sink import StreamWriter, TableWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["TidegateDataSource"]


class TidegateDataSource(DataSource):
    """`format("tidegate")`: the option `connector` says what is read or written."""

    @classmethod
    def name(cls) -> str:
        """Its name."""
        return "tidegate"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Writes batches of a stream."""
        return StreamWriter(self.options, schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """Writes a table."""
        return TableWriter(self.options, schema.names)
