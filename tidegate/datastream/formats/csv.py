"""CSV, under PyFlink's module name."""

from tidegate.connectors.formats.csv_rows import (
    CsvRowDeserializationSchema as CsvRowDeserializationSchema,
    CsvRowSerializationSchema as CsvRowSerializationSchema,
)

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]
