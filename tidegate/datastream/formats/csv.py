"""CSV, under PyFlink's module name."""

from tidegate.connectors.files.csv_schema import (
    CsvBulkWriters as CsvBulkWriters,
    CsvReaderFormat as CsvReaderFormat,
    CsvSchema as CsvSchema,
    CsvSchemaBuilder as CsvSchemaBuilder,
)
from tidegate.connectors.formats.csv_rows import (
    CsvRowDeserializationSchema as CsvRowDeserializationSchema,
    CsvRowSerializationSchema as CsvRowSerializationSchema,
)

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
