"""The Kafka connector passes the kit that authors get, on a real broker; the oracle is a plain client."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.formats import SimpleStringSchema
from tidegate.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    PlainKafkaSink,
    StringValues,
)
from tidegate.testing.services import KafkaService
from tidegate.testing.sink import ExpiringSinkSuite, SinkSuite, SinkTarget
from tidegate.testing.source import PausingSourceSuite, RangedSourceSuite, SourceTarget

pytestmark = pytest.mark.service

LATEST = KafkaOffsetsInitializer.latest()
PATIENCE = 400
"""A broker answers when it likes."""


def filled(kafka: KafkaService, partitions: int, values: list[str]) -> str:
    """A topic with `values` dealt to its partitions."""
    topic = kafka.new_topic(partitions)
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    producer.flush()
    return topic


@pytest.mark.connector("kafka.source")
class TestKafkaSource(PausingSourceSuite, RangedSourceSuite):
    """A bounded topic of two partitions."""

    @pytest.fixture
    def target(self, kafka: KafkaService) -> SourceTarget:
        values = [f"record {number}" for number in range(5)]
        topic = filled(kafka, 2, values)
        source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), stop=LATEST)
        return SourceTarget(source, expected=values, patience=PATIENCE, clock=SYSTEM_CLOCK)


def read_committed(kafka: KafkaService, topic: str, partitions: int) -> list[str]:
    """Every committed record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": topic,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values: list[str] = []
    ends = 0
    while ends < partitions:
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
        else:
            values.append(message.value().decode())
    consumer.close()
    return values


@pytest.mark.connector("kafka.sink")
class TestKafkaSink(ExpiringSinkSuite):
    """Exactly once through transactions."""

    kills = 12

    @pytest.fixture
    def target(self, kafka: KafkaService) -> SinkTarget:
        topic = kafka.new_topic(2)
        sink = KafkaSink(kafka.address, KafkaRecordSerializationSchema(topic, SimpleStringSchema()))
        return SinkTarget(sink, lambda: read_committed(kafka, topic, 2))


@pytest.mark.connector("kafka (at least once).sink")
class TestPlainKafkaSink(SinkSuite):
    """At least once, nothing to commit."""

    @pytest.fixture
    def target(self, kafka: KafkaService) -> SinkTarget:
        topic = kafka.new_topic(2)
        sink = PlainKafkaSink(kafka.address, KafkaRecordSerializationSchema(topic, SimpleStringSchema()))
        return SinkTarget(sink, lambda: read_committed(kafka, topic, 2))
