"""Serialization formats of records, for connectors that carry bytes."""

from tidegate.connectors.formats.registered import (
    RegistryAvro as RegistryAvro,
    RegistryJson as RegistryJson,
    RegistryProtobuf as RegistryProtobuf,
)
from tidegate.connectors.formats.registry import SchemaRegistry as SchemaRegistry
from tidegate.connectors.formats.schema import (
    ByteArraySchema as ByteArraySchema,
    DeserializationSchema as DeserializationSchema,
    Encoder as Encoder,
    RowFieldExtractorSchema as RowFieldExtractorSchema,
    SerializationSchema as SerializationSchema,
    SimpleStringSchema as SimpleStringSchema,
)

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RegistryAvro",
    "RegistryJson",
    "RegistryProtobuf",
    "RowFieldExtractorSchema",
    "SchemaRegistry",
    "SerializationSchema",
    "SimpleStringSchema",
]
