"""Record serializer of the Kafka sink: topic, key, value, headers and timestamp of a message.

Example:
    >>> schema = KafkaRecordSerializationSchema("totals", key=lambda total: total["user"].encode())
    >>> schema.encoder(largest=1_000)({"user": "ada", "sum": 3})
    ('totals', b'{"user":"ada","sum":3}', b'ada', -1, None)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final, Self, TypeAlias

import msgspec

from tidegate.components import OptionsOf, with_options
from tidegate.connectors.formats import SerializationSchema
from tidegate.connectors.formats.changes import ChangeFormat
from tidegate.connectors.kafka.letters import letter_headers
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError, TidegateError

__all__ = [
    "ANY_PARTITION",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
    "Message",
    "to_json",
]

ToBytes: TypeAlias = SerializationSchema | Callable[[Any], bytes | None]
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Message: TypeAlias = tuple[Any, bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]
"""Topic, value, key, partition, headers."""

ANY_PARTITION: Final = -1
"""The key decides, or chance."""

to_json = msgspec.json.encode
"""JSON of records as msgspec writes it."""
_JSON: Final = msgspec.json.Encoder()


class KafkaTopicSelector(ABC):
    """Chooses a topic for each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic."""


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """How records become messages; picklable and without state.

    Args:
        topic: Where they go: a name, or a function of the record.
        value: Bytes of a value; None makes a tombstone. A `ChangeFormat` writes changes of all kinds.
        key: Bytes of a key; messages with equal keys go to one partition.
        headers: What else to say.
        partition: A partition by number; without one the key decides, or chance.
        timestamps: Whether messages carry the times of the records, if those have any.
        upsert: Whether the newest message of a key is all that counts: then changes may come, and one that deletes
            becomes a tombstone. Key the stream by the same key, so that one subtask writes all messages of it.

    Raises:
        ConfigError: there is no topic, or no key for upserts.
    """

    topic: str | Callable[[Any], str]
    value: ToBytes | ChangeFormat = to_json
    key: ToBytes | None = None
    headers: Callable[[Any], Headers] | None = None
    partition: Callable[[Any], int] | None = None
    timestamps: bool = True
    upsert: bool = False

    def __post_init__(self) -> None:
        if not self.topic:
            raise ConfigError("kafka sink has no topic; expected a name or a function of the record")
        if self.upsert and self.key is None:
            raise ConfigError(
                "kafka sink with upsert has no key; set the key by which a later message replaces earlier ones"
            )
        if self.upsert and isinstance(self.value, ChangeFormat):
            raise ConfigError(
                f"kafka sink with upsert has the value format {type(self.value).__name__}, whose messages are changes; leave "
                "out one of them"
            )

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """A schema in the making."""
        return KafkaRecordSerializationSchemaBuilder()

    @staticmethod
    def dead_letters(topic: str) -> KafkaRecordSerializationSchema:
        """Writes dead letters with their original bytes, and headers with the error and its position.

        Example:
            >>> KafkaRecordSerializationSchema.dead_letters("orders.dead").one_topic
            'orders.dead'
        """
        return KafkaRecordSerializationSchema(
            topic, attrgetter("value"), attrgetter("key"), headers=letter_headers
        )

    def with_options(self, options_of: OptionsOf) -> KafkaRecordSerializationSchema:
        """The same, with settings for its formats."""
        value, key = with_options(self.value, options_of), with_options(self.key, options_of)
        return replace(self, value=value, key=key)

    @property
    def one_topic(self) -> str | None:
        """The topic of all records if it is one."""
        return self.topic if isinstance(self.topic, str) else None

    @property
    def takes_changes(self) -> bool:
        """Whether changes of all kinds can be written."""
        return self.upsert or isinstance(self.value, ChangeFormat)

    @property
    def plain(self) -> bool:
        """Whether messages have no headers, and no partition that a function chooses."""
        return self.partition is None and self.headers is None

    def changer(self, largest: int) -> Callable[[Any, RowKind], Message | None]:
        """The function that makes a message of a change, if it `takes_changes`.

        With upsert a DELETE is a tombstone, and an UPDATE_BEFORE is left out.
        """
        if isinstance(self.value, ChangeFormat):
            encode = self.value.encode
            encoders = {kind: replace(self, value=partial(encode, kind)).encoder(largest) for kind in RowKind}
            return lambda record, kind: encoders[kind](record)
        insert, delete = self.encoder(largest), replace(self, value=_nothing).encoder(largest)

        def change(record: Any, kind: RowKind) -> Message | None:
            if kind is RowKind.UPDATE_BEFORE:
                return None
            return delete(record) if kind is RowKind.DELETE else insert(record)

        return change

    def encoder(self, largest: int) -> Callable[[Any], Message]:
        """What makes a message of a record; it raises RecordError at one that cannot be, or has over `largest` bytes."""
        parts = self._parts()
        topic, to_value, to_key = self.one_topic, parts["value"], parts["key"]
        to_topic, to_partition, to_headers = parts["topic"], parts["partition"], parts["headers"]

        def to_one_topic(record: Any) -> Message:
            try:
                value = to_value(record)
                key = to_key(record)
            except Exception as error:
                raise _blamed(parts, record, error) from error
            if value is not None and len(value) > largest:
                raise _too_large(record, len(value), largest)
            return topic, value, key, ANY_PARTITION, None

        def to_any(record: Any) -> Message:
            _, value, key, _, _ = to_one_topic(record)
            try:
                return to_topic(record), value, key, to_partition(record), to_headers(record)
            except Exception as error:
                raise _blamed(parts, record, error) from error

        return to_one_topic if topic is not None and self.plain else to_any

    def _parts(self) -> dict[str, Callable[[Any], Any]]:
        """What makes each part of a message, by its name."""
        topic, headers = self.topic, self.headers
        return {
            "value": _function(self.value),
            "key": _nothing if self.key is None else _function(self.key),
            "topic": topic if callable(topic) else lambda record: topic,
            "partition": self.partition or _any_partition,
            "headers": _nothing if headers is None else lambda record: list(headers(record)),
        }


class KafkaRecordSerializationSchemaBuilder:
    """A schema in the making, as PyFlink's programs build it."""

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] = ""
        self._key: ToBytes | None = None
        self._value: ToBytes | None = None

    def set_topic(self, topic: str) -> Self:
        """All records go there."""
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: KafkaTopicSelector | Callable[[Any], str]) -> Self:
        """Each record goes where the selector says."""
        self._topic = (
            topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        )
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Bytes of the key."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Bytes of the value."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema.

        Raises:
            ConfigError: something is missing.
        """
        if self._value is None:
            raise ConfigError(
                "kafka sink has no value schema; set it with set_value_serialization_schema(...)"
            )
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key)


def _function(to_bytes: ToBytes | ChangeFormat) -> Callable[[Any], bytes | None]:
    if isinstance(to_bytes, ChangeFormat):
        return partial(to_bytes.encode, RowKind.INSERT)
    if to_bytes is to_json:
        return _JSON.encode  # the same without making an encoder for each record
    return to_bytes.serialize if isinstance(to_bytes, SerializationSchema) else to_bytes


def _nothing(record: Any) -> None:
    """Stands where a message has no such part."""


def _any_partition(record: Any) -> int:
    return ANY_PARTITION


def _blamed(parts: Mapping[str, Callable[[Any], Any]], record: Any, error: Exception) -> TidegateError:
    """The error that names the part of the message that could not be made, unless the schema raised its own."""
    if isinstance(error, TidegateError):
        return error
    what = next((name for name, part in parts.items() if _fails(part, record)), "message")
    return RecordError(
        f"kafka sink: cannot make the {what} of record {record!r:.80} ({type(error).__name__}: {error}); correct "
        "the schema, or map the record first"
    )


def _too_large(record: Any, size: int, largest: int) -> RecordError:
    return RecordError(
        f"kafka sink: the message of record {record!r:.80} has {size} bytes; expected at most {largest}; raise "
        "message.max.bytes of the sink and max.message.bytes of the topic, or write smaller messages"
    )


def _fails(function: Callable[[Any], Any], value: Any) -> bool:
    try:
        function(value)
    except Exception:
        return True
    return False
