"""What becomes of records that go to Kafka: topic, key, value and the rest of a message.

Example:
    >>> schema = KafkaRecordSerializationSchema("totals", key=lambda total: total["user"].encode())
    >>> schema.messages([{"user": "ada", "sum": 3}], None)
    [{'value': b'{"user":"ada","sum":3}', 'key': b'ada'}]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import msgspec

from tidegate.connectors.formats import SerializationSchema
from tidegate.errors import ConfigError, RecordError

__all__ = [
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
    "to_json",
]

ToBytes: TypeAlias = SerializationSchema | Callable[[Any], bytes | None]
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

to_json = msgspec.json.encode
"""JSON of records as msgspec writes it."""


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
        value: Bytes of a value; None makes a tombstone.
        key: Bytes of a key; messages with equal keys go to one partition.
        headers: What else to say.
        partition: A partition by number; without one the key decides, or chance.
        timestamps: Whether messages carry the times of the records, if those have any.

    Raises:
        ConfigError: there is no topic.
    """

    topic: str | Callable[[Any], str]
    value: ToBytes = to_json
    key: ToBytes | None = None
    headers: Callable[[Any], Headers] | None = None
    partition: Callable[[Any], int] | None = None
    timestamps: bool = True

    def __post_init__(self) -> None:
        if not self.topic:
            raise ConfigError("kafka sink has no topic; expected a name or a function of the record")

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """A schema in the making."""
        return KafkaRecordSerializationSchemaBuilder()

    @property
    def one_topic(self) -> str | None:
        """The topic of all records if it is one."""
        return self.topic if isinstance(self.topic, str) else None

    def messages(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> list[dict[str, Any]]:
        """A message for each record, in the words of the client's `produce`.

        Raises:
            RecordError: a record cannot be written.
        """
        columns: dict[str, list[Any]] = {"value": _column("value", _function(self.value), values)}
        if self.key is not None:
            columns["key"] = _column("key", _function(self.key), values)
        if self.headers is not None:
            headers = self.headers
            columns["headers"] = _column("headers", lambda value: list(headers(value)), values)
        if self.partition is not None:
            columns["partition"] = _column("partition", self.partition, values)
        if callable(self.topic):
            columns["topic"] = _column("topic", self.topic, values)
        if self.timestamps and timestamps is not None:
            columns["timestamp"] = [max(0, time) for time in timestamps]
        names = tuple(columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


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
                "kafka sink has no value schema; say what values are by set_value_serialization_schema(...)"
            )
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key)


def _function(to_bytes: ToBytes) -> Callable[[Any], bytes | None]:
    return to_bytes.serialize if isinstance(to_bytes, SerializationSchema) else to_bytes


def _column(what: str, function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    try:
        return [function(value) for value in values]
    except RecordError:
        raise
    except Exception as error:
        bad = next(value for value in values if _fails(function, value))
        raise RecordError(
            f"kafka sink: the {what} of record {bad!r:.80} cannot be made ({type(error).__name__}: {error}); "
            "correct the schema, or map the record first"
        ) from error


def _fails(function: Callable[[Any], Any], value: Any) -> bool:
    try:
        function(value)
    except Exception:
        return True
    return False
