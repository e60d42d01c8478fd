"""Avro serialization of rows without a header, under PyFlink's names; with a schema registry use `RegistryAvro`.

Example:
    >>> text = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    >>> data = AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(id=7))
    >>> AvroRowDeserializationSchema(avro_schema_string=text).deserialize(data)
    Row(id=7)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.connectors.formats.schema import DeserializationSchema, SerializationSchema
from tidegate.connectors.formats.typed import inserted
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row
from tidegate.types import Kind, TypeInformation

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


@dataclass(frozen=True)
class AvroSchema:
    """A schema as its JSON."""

    text: str

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """The schema that a text is.

        Raises:
            ConfigError: it is none.
        """
        _parsed(json_schema)
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """The schema that is in a file.

        Raises:
            ConfigError: there is none in it.
        """
        try:
            return AvroSchema.parse_string(Path(file_path).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Avro schema {file_path} cannot be read: {error}") from error

    def __str__(self) -> str:
        return self.text


def GenericRecordAvroTypeInfo(schema: AvroSchema) -> TypeInformation:  # noqa: N802 # PyFlink's name of a class
    """The type of records of a schema, which are dictionaries."""
    return TypeInformation(Kind.ANY)


class _Schema:
    """What both have in common."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        name = type(self).__name__
        if avro_schema_string is None:
            raise ConfigError(
                f"{name}: record_class is {record_class!r}, a Java class; expected avro_schema_string"
            )
        found = _parsed(avro_schema_string)
        if not isinstance(found, dict) or found.get("type") != "record":
            raise ConfigError(
                f"{name}: the schema is {avro_schema_string:.80}; expected the schema of a record"
            )
        self._text = avro_schema_string

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (None, self._text))


class AvroRowDeserializationSchema(_Schema, DeserializationSchema):
    """Rows of Avro, with the names of the schema."""

    def deserialize(self, message: bytes) -> Row:
        """The row."""
        try:
            row: Row = _rows(_reader(self._text)(message), _parsed(self._text), {})
        except Exception as error:
            raise RecordError(
                f"message {message!r:.60} does not match the Avro schema: {type(error).__name__}: {error}"
            ) from error
        return row


class AvroRowSerializationSchema(_Schema, SerializationSchema):
    """Rows as Avro; they are matched to the schema by names, or by position if they have none."""

    def serialize(self, element: Any) -> bytes:
        """The message."""
        names = tuple(field["name"] for field in _parsed(self._text)["fields"])
        fields = inserted("AvroRowSerializationSchema", element, names)
        try:
            return _writer(self._text)(Row.of(fields, names).as_dict(recursive=True))
        except Exception as error:
            raise RecordError(
                f"record {element!r:.80} does not match the Avro schema: {type(error).__name__}: {error}"
            ) from error


@functools.cache
def _parsed(text: str) -> Any:
    from tidegate.connectors.formats._client import parsed

    return parsed(text)


@functools.cache
def _reader(text: str) -> Any:
    from tidegate.connectors.formats._client import avro_reader

    return avro_reader(text)


@functools.cache
def _writer(text: str) -> Callable[[Any], bytes]:
    from tidegate.connectors.formats._client import avro_writer

    return avro_writer(text)


def _rows(value: Any, schema: Any, known: dict[str, Any]) -> Any:
    """Records as rows, wherever they are; `known` has the named schemas that were met."""
    if isinstance(schema, list):
        # Of a union a record is the only thing that Avro's reader makes a dictionary of, besides maps.
        fitting = [
            each for each in schema if _fits(value, known.get(each, each) if isinstance(each, str) else each)
        ]
        return _rows(value, fitting[0], known) if fitting else value
    schema = known.get(schema, schema) if isinstance(schema, str) else schema
    if not isinstance(schema, dict):
        return value
    match schema["type"]:
        case "record":
            known[schema["name"]] = schema
            fields = schema["fields"]
            names = tuple(field["name"] for field in fields)
            return Row.of([_rows(value[field["name"]], field["type"], known) for field in fields], names)
        case "array":
            return [_rows(item, schema["items"], known) for item in value]
        case "map":
            return {key: _rows(item, schema["values"], known) for key, item in value.items()}
    return value


def _fits(value: Any, schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema["type"] == "record":
        return isinstance(value, dict) and value.keys() == {field["name"] for field in schema["fields"]}
    return isinstance(value, {"map": dict, "array": list}.get(schema["type"], ()))
