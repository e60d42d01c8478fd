"""PyFlink's builders of Kafka sinks.

Example:
    >>> from tidegate.connectors.formats import SimpleStringSchema
    >>> from tidegate.connectors.kafka.record_schema import KafkaRecordSerializationSchema
    >>> schema = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic("totals")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> sink = KafkaSinkBuilder().set_bootstrap_servers("localhost:9092").set_record_serializer(schema)
    >>> sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build().delivery
    'exactly-once'
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Self

from tidegate.connectors.formats import SerializationSchema
from tidegate.connectors.kafka.options import KafkaSinkOptions
from tidegate.connectors.kafka.record_schema import KafkaRecordSerializationSchema
from tidegate.connectors.kafka.sink import KafkaSink, PlainKafkaSink
from tidegate.connectors.spi import DeliveryGuarantee
from tidegate.errors import ConfigError
from tidegate.options import altered

__all__ = ["FlinkKafkaProducer", "KafkaSinkBuilder", "Semantic"]

_TIMEOUT = "transaction.timeout.ms"


class Semantic(Enum):
    """The guarantees of the older producer."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class KafkaSinkBuilder:
    """A Kafka sink in the making."""

    def __init__(self) -> None:
        self._brokers = ""
        self._schema: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._options = KafkaSinkOptions()
        self._properties: dict[str, Any] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Where the cluster is."""
        self._brokers = bootstrap_servers
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> Self:
        """Set the conversion of records to messages."""
        self._schema = record_serializer
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set the delivery guarantee; none by default."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """What transactional ids begin with."""
        self._options = altered(self._options, prefix=transactional_id_prefix)
        return self

    def set_property(self, key: str, value: str) -> Self:
        """A setting of the client."""
        self._properties[key] = value
        return self

    def set_options(self, options: KafkaSinkOptions) -> Self:
        """How an exactly-once sink behaves."""
        self._options = options
        return self

    def build(self) -> KafkaSink | PlainKafkaSink:
        """The sink.

        Raises:
            ConfigError: a setting is missing or invalid.
        """
        if self._schema is None:
            raise ConfigError("kafka sink has no record serializer; set it with set_record_serializer(...)")
        properties = dict(self._properties)
        brokers = properties.pop("bootstrap.servers", self._brokers)
        timeout = properties.pop(_TIMEOUT, None)
        # Programs give a producer the settings of their consumer too; a group means nothing to it.
        properties.pop("group.id", None)
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            plain: Any = self._guarantee.value
            return PlainKafkaSink(brokers, self._schema, plain, properties)
        options = self._options
        if timeout is not None:
            options = altered(options, transaction_timeout_ms=int(timeout))
        return KafkaSink(brokers, self._schema, options, properties)


def FlinkKafkaProducer(  # noqa: N802 # PyFlink's name of a class
    topic: str,
    serialization_schema: SerializationSchema,
    producer_config: Mapping[str, str],
    kafka_producer_pool_size: int = 5,
    semantic: Semantic = Semantic.AT_LEAST_ONCE,
) -> KafkaSink | PlainKafkaSink:
    """PyFlink's older Kafka sink, for `stream.add_sink`.

    Example:
        >>> from tidegate.connectors.formats import SimpleStringSchema
        >>> FlinkKafkaProducer("totals", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"}).delivery
        'at-least-once'
    """
    builder = (
        KafkaSinkBuilder()
        .set_record_serializer(KafkaRecordSerializationSchema(topic, serialization_schema))
        .set_delivery_guarantee(DeliveryGuarantee[semantic.name])
        .set_options(KafkaSinkOptions(pool=kafka_producer_pool_size))
    )
    for key, value in producer_config.items():
        builder.set_property(key, value)
    return builder.build()
