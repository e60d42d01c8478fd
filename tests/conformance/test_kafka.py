"""The Kafka connector passes the kit that authors get, on a real broker; the oracle is a plain client."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, StringValues
from tidegate.testing.services import KafkaService
from tidegate.testing.source import PausingSourceSuite, SourceTarget

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


class TestKafkaSource(PausingSourceSuite):
    """A bounded topic of two partitions."""

    @pytest.fixture
    def target(self, kafka: KafkaService) -> SourceTarget:
        values = [f"record {number}" for number in range(5)]
        topic = filled(kafka, 2, values)
        source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), stop=LATEST)
        return SourceTarget(source, expected=values, patience=PATIENCE, clock=SYSTEM_CLOCK)
