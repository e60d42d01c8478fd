"""Avro, under PyFlink's module name."""

from tidegate.connectors.files.avro import (
    AvroBulkWriters as AvroBulkWriters,
    AvroInputFormat as AvroInputFormat,
)
from tidegate.connectors.formats.avro_rows import (
    AvroRowDeserializationSchema as AvroRowDeserializationSchema,
    AvroRowSerializationSchema as AvroRowSerializationSchema,
    AvroSchema as AvroSchema,
    GenericRecordAvroTypeInfo as GenericRecordAvroTypeInfo,
)

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
