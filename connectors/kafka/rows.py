"""Topics as Spark tables: the options and columns of Spark's own Kafka source and sink.

Example:
    >>> rows = KafkaRows()
    >>> options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "totals", "prefix": "billing"}
    >>> rows.sink(options, "0", ["value"]).options.prefix
    'billing.0'
    >>> rows.source({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders,refunds"}, bounded=True).topics
    ('orders', 'refunds')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidegate.connectors.kafka.offsets import KafkaOffsetsInitializer
from tidegate.connectors.kafka.options import KafkaSinkOptions, KafkaSourceOptions, OnTopicChange
from tidegate.connectors.kafka.record_schema import Headers, KafkaRecordSerializationSchema
from tidegate.connectors.kafka.serde import KafkaDeserializer, Message
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.connectors.kafka.source import KafkaSource
from tidegate.errors import ConfigError, RecordError
from tidegate.options import Layer, load, option

__all__ = ["KafkaRows"]

_CLIENT: Final = "kafka."
_BROKERS: Final = "kafka.bootstrap.servers"
_COLUMNS: Final = frozenset({"topic", "key", "value", "headers", "partition"})


@dataclass(frozen=True)
class _Sink:
    topic: str | None = option("topic", None, "target topic; default: the column topic of each row")
    prefix: str | None = option("prefix", None, "prefix of transactional ids")
    transaction_timeout_ms: int | None = option(
        "transaction_timeout_ms", None, "timeout after which the broker aborts a transaction"
    )
    take_over: bool = option("take_over", False, "take over a prefix that another query claimed")


@dataclass(frozen=True)
class _Source:
    topics: str = option("subscribe", "", "topics, separated by commas")
    pattern: str | None = option("subscribepattern", None, "regular expression that whole topic names match")
    start: str = option("startingoffsets", "earliest", "start position: earliest, latest or a time in ms")
    group: str | None = option("group", None, "consumer group whose committed offsets are the start position")
    on_topic_change: OnTopicChange = option(
        "on_topic_change", "fail", "what to do when a topic was removed or recreated"
    )


class KafkaRows:
    """Makes sources and sinks of options; those that begin with `kafka.` are the client's."""

    @property
    def columns(self) -> str:
        """As of Spark's own source."""
        return (
            "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
            "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
        )

    def source(self, options: Mapping[str, str], *, bounded: bool) -> KafkaSource:
        """Whole messages.

        Raises:
            ConfigError: an option is unknown, missing or wrong.
        """
        brokers, properties, rest = _parts(options)
        said = load(_Source, Layer("the options of connector kafka", rest))
        return KafkaSource(
            brokers,
            topics=tuple(name.strip() for name in said.topics.split(",") if name.strip()),
            pattern=said.pattern,
            deserializer=_Columns(),
            start=_start(said.start),
            stop=KafkaOffsetsInitializer.latest() if bounded else None,
            group=said.group,
            properties=properties,
            options=KafkaSourceOptions(on_topic_change=said.on_topic_change, commit_offsets=False),
        )

    def sink(self, options: Mapping[str, str], lane: str, columns: Sequence[str]) -> KafkaSink:
        """A message for each row: of its column `value`, and of `key`, `headers`, `partition` and `topic` if it has them.

        Raises:
            ConfigError: an option or a column is unknown, missing or wrong.
        """
        brokers, properties, rest = _parts(options)
        said = load(_Sink, Layer("the options of connector kafka", rest))
        _check(columns, said.topic)
        schema = KafkaRecordSerializationSchema(
            topic=said.topic or _topic,
            value=_value,
            key=_key if "key" in columns else None,
            headers=_headers if "headers" in columns else None,
            partition=_partition if "partition" in columns else None,
        )
        known = KafkaSinkOptions(
            prefix=None if said.prefix is None else f"{said.prefix}.{lane}",
            transaction_timeout_ms=said.transaction_timeout_ms,
            take_over=said.take_over,
        )
        return KafkaSink(brokers, schema, known, properties)


class _Columns(KafkaDeserializer):
    """The columns of a message in the order of `KafkaRows.columns`; times in milliseconds."""

    def values(self, messages: Sequence[Message]) -> list[Any]:
        return [
            (
                message.key(),
                message.value(),
                message.topic(),
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                [{"key": name, "value": value} for name, value in message.headers() or ()],
            )
            for message in messages
        ]


def _check(columns: Sequence[str], topic: str | None) -> None:
    if "value" not in columns or not _COLUMNS.issuperset(columns):
        raise ConfigError(
            f"connector kafka needs a column value, and accepts {', '.join(sorted(_COLUMNS))}; got "
            f"{', '.join(columns)}; select to_json(struct(*)) AS value"
        )
    if topic is None and "topic" not in columns:
        raise ConfigError("connector kafka has no topic; expected the option topic, or a column topic")


def _parts(options: Mapping[str, str]) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Brokers, settings of the client, and the rest."""
    brokers = options.get(_BROKERS)
    if not brokers:
        raise ConfigError(f"connector kafka has no brokers; set their addresses in the option {_BROKERS}")
    client = {key: value for key, value in options.items() if key.startswith(_CLIENT) and key != _BROKERS}
    rest = {key: value for key, value in options.items() if not key.startswith(_CLIENT)}
    return brokers, {key.removeprefix(_CLIENT): value for key, value in client.items()}, rest


def _start(said: str) -> KafkaOffsetsInitializer:
    if said in ("earliest", "latest"):
        return KafkaOffsetsInitializer("earliest" if said == "earliest" else "latest")
    if said == "committed":
        return KafkaOffsetsInitializer.committed_offsets()
    if said.isdigit():
        return KafkaOffsetsInitializer.timestamp(int(said))
    raise ConfigError(
        f"option startingOffsets is {said!r}; expected earliest, latest, committed, or a time in milliseconds"
    )


def _bytes(row: Mapping[str, Any], column: str) -> bytes | None:
    found = row.get(column)
    if found is None or isinstance(found, bytes):
        return found
    if isinstance(found, str):
        return found.encode()
    raise RecordError(
        f"kafka sink: column {column} is of type {type(found).__name__}; expected STRING or BINARY; cast it, or use "
        "to_json(struct(*))"
    )


def _value(row: Mapping[str, Any]) -> bytes | None:
    return _bytes(row, "value")


def _key(row: Mapping[str, Any]) -> bytes | None:
    return _bytes(row, "key")


def _topic(row: Mapping[str, Any]) -> str:
    topic = row.get("topic")
    if not isinstance(topic, str) or not topic:
        raise RecordError("kafka sink: a row has no topic; set its column topic, or the option topic")
    return topic


def _headers(row: Mapping[str, Any]) -> Headers:
    return [(header["key"], header["value"]) for header in row.get("headers") or ()]


def _partition(row: Mapping[str, Any]) -> int:
    return -1 if (found := row.get("partition")) is None else int(found)
