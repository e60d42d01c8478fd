"""Serialization schemas under PyFlink's names: one record to bytes and back, and lines of text for files.

Example:
    >>> SimpleStringSchema().deserialize(SimpleStringSchema().serialize("tide"))
    'tide'
    >>> Encoder.simple_string_encoder().encode([("to", 1), "be"])
    b"('to', 1)\\nbe\\n"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError, RecordError
from tidegate.types import Row, TypeInformation, Types

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Makes bytes of a record."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """The bytes.

        Raises:
            RecordError: the record is not what the schema is for.
        """


class DeserializationSchema(ABC):
    """Makes a record of bytes."""

    skips_errors: bool = False
    """Whether a Kafka source that is built with it leaves out what it cannot read, and counts it."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records if it is known."""
        return None

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The record.

        Raises:
            RecordError: the bytes are not what the schema is for.
        """


@dataclass(frozen=True)
class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Texts.

    Raises:
        ConfigError: the charset is unknown.
    """

    charset: str = "UTF-8"

    def __post_init__(self) -> None:
        _check_charset(self.charset)

    @property
    def produced_type(self) -> TypeInformation:
        """Text."""
        return Types.STRING()

    def serialize(self, element: Any) -> bytes:
        """The text in the charset."""
        return _encoded(_instance(element, str, "SimpleStringSchema"), self.charset)

    def deserialize(self, message: bytes) -> str:
        """The text."""
        try:
            return message.decode(self.charset)
        except UnicodeDecodeError as error:
            raise RecordError(
                f"message {message[:40]!r} is not valid {self.charset}; expected what SimpleStringSchema wrote"
            ) from error


@dataclass(frozen=True)
class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes, as they are."""

    def serialize(self, element: Any) -> bytes:
        """The record itself."""
        whole: bytes = _instance(element, bytes, "ByteArraySchema")
        return whole

    def deserialize(self, message: bytes) -> bytes:
        """The message itself."""
        return message


@dataclass(frozen=True)
class RowFieldExtractorSchema(SerializationSchema):
    """One field of a `Row`, which holds bytes.

    Raises:
        ConfigError: the index is not a position.
    """

    field_index: int

    def __post_init__(self) -> None:
        if type(self.field_index) is not int or self.field_index < 0:
            raise ConfigError(f"field_index is {self.field_index!r}; expected a position, 0 or greater")

    def serialize(self, element: Any) -> bytes:
        """The field; none at all for None."""
        row = _instance(element, Row, "RowFieldExtractorSchema")
        if self.field_index >= len(row):
            raise RecordError(f"record {row!r} has no field {self.field_index}; expected more fields")
        field = row[self.field_index]
        return b"" if field is None else _instance(field, bytes, "RowFieldExtractorSchema")


@dataclass(frozen=True)
class Encoder:
    """Lines of a file: each record as `str` shows it.

    Raises:
        ConfigError: the charset is unknown.
    """

    charset_name: str = "UTF-8"
    suffix: str = ""

    def __post_init__(self) -> None:
        _check_charset(self.charset_name)

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Writes `str(record)` and a line feed."""
        return Encoder(charset_name)

    def encode(self, values: list[Any]) -> bytes:
        """The lines."""
        return b"".join(_encoded(f"{value}\n", self.charset_name) for value in values)


def _check_charset(charset: str) -> None:
    try:
        "".encode(charset)
    except LookupError as error:
        raise ConfigError(f"charset {charset!r} is unknown") from error


def _encoded(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset)
    except UnicodeEncodeError as error:
        raise RecordError(
            f"record {text[:40]!r} cannot be written in {charset}; expected characters of this charset; use UTF-8"
        ) from error


def _instance(value: Any, cls: type[Any], schema: str) -> Any:
    if not isinstance(value, cls):
        raise RecordError(
            f"record is {type(value).__name__} {value!r:.40}; {schema} expected {cls.__name__}; map it first"
        )
    return value
