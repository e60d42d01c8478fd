"""JSON serialization of rows, under PyFlink's names.

Example:
    >>> from tidegate.types import Types
    >>> orders = Types.ROW_NAMED(["id", "user"], [Types.LONG(), Types.STRING()])
    >>> JsonRowDeserializationSchema.builder().type_info(orders).build().deserialize(b'{"id": 1, "more": 2}')
    Row(id=1, user=None)
    >>> JsonRowSerializationSchema.builder().with_type_info(orders).build().serialize(Row(1, "ada"))
    b'{"id":1,"user":"ada"}'
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from tidegate.connectors.formats.schema import DeserializationSchema, SerializationSchema
from tidegate.connectors.formats.typed import annotation, field_names, inserted, row_type, to_rows
from tidegate.errors import RecordError
from tidegate.row import Row
from tidegate.types import TypeInformation

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

_encode = msgspec.json.Encoder(decimal_format="number").encode


class _Reader:
    """A row type in the making."""

    def __init__(self) -> None:
        self._type: TypeInformation | None = None
        self._all_there = False
        self._skips = False

    def type_info(self, type_info: TypeInformation) -> Self:
        """The type of the rows; its names are the properties that are read."""
        self._type = type_info
        return self

    def fail_on_missing_field(self) -> Self:
        """Refuse a message without one of the fields, which is null otherwise."""
        self._all_there = True
        return self

    def ignore_parse_errors(self) -> Self:
        """Let a Kafka source skip messages that cannot be read, and count them."""
        self._skips = True
        return self

    def build(self) -> JsonRowDeserializationSchema:
        """The schema.

        Raises:
            ConfigError: the type is missing, or JSON cannot represent it.
        """
        info = row_type("JsonRowDeserializationSchema", self._type)
        return JsonRowDeserializationSchema(info, self._all_there, self._skips)


class _Writer:
    """A row type in the making."""

    def __init__(self) -> None:
        self._type: TypeInformation | None = None

    def with_type_info(self, type_info: TypeInformation) -> Self:
        """The type of the rows; its names are the properties that are written."""
        self._type = type_info
        return self

    def build(self) -> JsonRowSerializationSchema:
        """The schema.

        Raises:
            ConfigError: the type is missing.
        """
        return JsonRowSerializationSchema(row_type("JsonRowSerializationSchema", self._type))


@dataclass(frozen=True)
class JsonRowDeserializationSchema(DeserializationSchema):
    """Rows of JSON objects; properties that are not asked for are left out."""

    row: TypeInformation
    all_there: bool = False
    skips_errors: bool = False

    Builder: ClassVar = _Reader

    def __post_init__(self) -> None:
        annotation(self.row)

    @staticmethod
    def builder() -> _Reader:
        """A schema in the making."""
        return _Reader()

    @property
    def produced_type(self) -> TypeInformation:
        """The rows."""
        return self.row

    def deserialize(self, message: bytes) -> Row:
        """The row."""
        decode, make = self._reading
        try:
            row: Row = make(decode(message))
        except (msgspec.MsgspecError, TypeError) as error:
            raise RecordError(f"message {message!r:.60} is not valid JSON for {self.row}: {error}") from error
        return row

    @functools.cached_property
    def _reading(self) -> tuple[Any, Any]:
        kind = annotation(self.row, all_there=self.all_there)
        return msgspec.json.Decoder(kind).decode, to_rows(self.row)

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonRowDeserializationSchema, (self.row, self.all_there, self.skips_errors))


@dataclass(frozen=True)
class JsonRowSerializationSchema(SerializationSchema):
    """Rows as JSON objects."""

    row: TypeInformation

    Builder: ClassVar = _Writer

    @staticmethod
    def builder() -> _Writer:
        """A schema in the making."""
        return _Writer()

    def serialize(self, element: Any) -> bytes:
        """The object."""
        names = field_names(self.row)
        fields = inserted("JsonRowSerializationSchema", element, names)
        try:
            return _encode(Row.of(fields, names).as_dict(recursive=True))
        except TypeError as error:
            raise RecordError(
                f"record {element!r:.80} cannot be written as JSON ({error}); map it first"
            ) from error
