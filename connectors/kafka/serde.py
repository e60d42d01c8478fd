"""Deserializers and serializers of Kafka messages.

A deserializer gets a batch of messages of one partition. One that cannot read a message may raise any exception; the
reader finds out which message it was.

Example:
    >>> JsonValues(dict[str, int]).produced_type.kind
    <Kind.MAP: 'map'>
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tidegate.changelog import ChangelogMode
from tidegate.classes import register_class
from tidegate.components import OptionsOf, with_options
from tidegate.connectors.formats import DeserializationSchema
from tidegate.connectors.formats.changes import ChangeFormat
from tidegate.elements import RowKind
from tidegate.types import TypeInformation, Types, infer

__all__ = [
    "ChangeValues",
    "Changes",
    "JsonValues",
    "KafkaDeserializer",
    "KafkaRecord",
    "KafkaRecords",
    "Message",
    "RawValues",
    "SchemaValues",
    "StringValues",
]


Message: TypeAlias = Any
"""What the client hands out: topic(), partition(), offset(), timestamp(), key(), value(), headers(), error()."""


@register_class
class KafkaRecord(msgspec.Struct, frozen=True):
    """All of a message: where it was, when, under which key, and what else was said."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaDeserializer(ABC):
    """Makes records of messages; picklable and without state."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records if it is known."""
        return None

    @abstractmethod
    def values(self, messages: Sequence[Message]) -> list[Any]:
        """A record for each message."""


class Changes(NamedTuple):
    """Changes of messages: rows, their kinds, and for each the number of its message."""

    values: list[Any]
    kinds: list[RowKind]
    messages: list[int]


class KafkaRecords(KafkaDeserializer):
    """Whole messages."""

    @property
    def produced_type(self) -> TypeInformation:
        """`KafkaRecord`."""
        return Types.of(KafkaRecord)

    def values(self, messages: Sequence[Message]) -> list[Any]:
        """A `KafkaRecord` for each message."""
        return [
            KafkaRecord(
                message.topic(),
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
            for message in messages
        ]


class RawValues(KafkaDeserializer):
    """Values as bytes; None for a tombstone."""

    @property
    def produced_type(self) -> TypeInformation:
        """Bytes or None."""
        return Types.of(bytes | None)

    def values(self, messages: Sequence[Message]) -> list[Any]:
        """The values as they are."""
        return [message.value() for message in messages]


class StringValues(KafkaDeserializer):
    """Values as text."""

    @property
    def produced_type(self) -> TypeInformation:
        """Text."""
        return Types.STRING()

    def values(self, messages: Sequence[Message]) -> list[Any]:
        """The values as UTF-8."""
        return [message.value().decode() for message in messages]


class JsonValues(KafkaDeserializer):
    """Values as JSON of a type; a tombstone is read as `null`, so the type has to allow None.

    Args:
        type: A class or annotation such as `Order` or `dict[str, int]`; without one, any JSON value.
    """

    def __init__(self, type: Any = Any) -> None:
        self._type = type
        self._decode = msgspec.json.Decoder(type).decode

    @property
    def produced_type(self) -> TypeInformation | None:
        """What `type` says."""
        return infer(self._type)

    def values(self, messages: Sequence[Message]) -> list[Any]:
        """The values, decoded and checked."""
        values = list(map(type(messages[0]).value, messages)) if messages else []
        if None in values:
            values = [b"null" if value is None else value for value in values]
        return list(map(self._decode, values))

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonValues, (self._type,))


class SchemaValues(KafkaDeserializer):
    """Values as a `DeserializationSchema` reads them: Avro, Protobuf or JSON of a schema registry, or one of yours."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    @property
    def produced_type(self) -> TypeInformation | None:
        """What the schema says."""
        return self._schema.produced_type

    def with_options(self, options_of: OptionsOf) -> SchemaValues:
        """The same, with settings for the schema."""
        return SchemaValues(with_options(self._schema, options_of))

    def values(self, messages: Sequence[Message]) -> list[Any]:
        """What the schema makes of each value."""
        read = self._schema.deserialize
        return [read(message.value()) for message in messages]


class ChangeValues(KafkaDeserializer):
    """Values as messages of changes, such as Debezium's; a message may hold several changes, or none.

    Args:
        format: Reads them.
    """

    def __init__(self, format: ChangeFormat) -> None:
        self._format = format

    @property
    def produced_type(self) -> TypeInformation | None:
        """The rows of the format."""
        return self._format.produced_type

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of the format."""
        return self._format.changelog_mode

    def values(self, messages: Sequence[Message]) -> list[Any]:
        """The rows of all changes."""
        return self.changes(messages).values

    def changes(self, messages: Sequence[Message]) -> Changes:
        """The changes of all messages, in order."""
        found = Changes([], [], [])
        for number, message in enumerate(messages):
            for kind, row in self._format.decode(message.value()):
                found.values.append(row)
                found.kinds.append(kind)
                found.messages.append(number)
        return found
