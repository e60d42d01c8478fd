"""What readers of a topic see, and what a query has left open there."""

from __future__ import annotations

import json
import re
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.kafka._wire import OpenTransaction, Wire

PARTITIONS = 2
NOTHING_COMES_S = 20


def read(brokers: str, topic: str, isolation: str = "read_committed") -> list[dict[str, Any]]:
    """Every record that is there, up to the end that this kind of reader may see."""
    settings = {
        "bootstrap.servers": brokers,
        "group.id": "audit",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    rows, ends = list[dict[str, Any]](), 0
    while ends < PARTITIONS:
        message = consumer.poll(NOTHING_COMES_S)
        assert message is not None, f"nothing comes from {topic} any more"
        if message.error():
            ends += 1
        else:
            rows.append(json.loads(message.value()))
    consumer.close()
    return rows


def left_open(brokers: str, prefix: str) -> list[OpenTransaction]:
    """Transactions under a prefix that nobody has ended."""
    wire = Wire({"bootstrap.servers": brokers}, SYSTEM_CLOCK)
    try:
        return wire.open_transactions(re.compile(re.escape(prefix) + r"\..*"))
    finally:
        wire.close()
