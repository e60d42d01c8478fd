"""Parquet, under PyFlink's module name."""

from tidegate.connectors.files.row_types import (
    AvroParquetReaders as AvroParquetReaders,
    AvroParquetWriters as AvroParquetWriters,
    ParquetBulkWriters as ParquetBulkWriters,
    ParquetColumnarRowInputFormat as ParquetColumnarRowInputFormat,
)

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]
