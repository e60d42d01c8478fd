"""JSON, under PyFlink's module name."""

from tidegate.connectors.formats.json_rows import (
    JsonRowDeserializationSchema as JsonRowDeserializationSchema,
    JsonRowSerializationSchema as JsonRowSerializationSchema,
)

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
