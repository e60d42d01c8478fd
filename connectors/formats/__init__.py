"""How records become bytes and back, for connectors that carry bytes."""

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
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]
