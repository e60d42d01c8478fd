"""Parquet, under PyFlink's module name."""

from tidegate.connectors.files.row_types import (
    ParquetBulkWriters as ParquetBulkWriters,
    ParquetColumnarRowInputFormat as ParquetColumnarRowInputFormat,
)

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]
