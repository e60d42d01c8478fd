"""Avro, under PyFlink's module name."""

from tidegate.connectors.formats.avro_rows import (
    AvroRowDeserializationSchema as AvroRowDeserializationSchema,
    AvroRowSerializationSchema as AvroRowSerializationSchema,
    AvroSchema as AvroSchema,
    GenericRecordAvroTypeInfo as GenericRecordAvroTypeInfo,
)

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
