"""Orders from one topic of Kafka, how much each user has spent to another, exactly once.

`python kafka_to_kafka.py host:9092` uses a cluster of yours and makes its topics there; without an address it starts a
broker of its own, which needs Java 17. Kill it and start it again: readers of committed records see each sum once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from tidegate.testing.services import KafkaService

USERS = ("ada", "bob", "eve")
ORDERS = 300


class Spent(KeyedProcessFunction):
    """Adds up what a user has spent."""

    def open(self, runtime_context: Any) -> None:
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", default=0))

    def process_element(self, value: dict[str, Any], ctx: Any) -> Iterator[dict[str, Any]]:
        self.cents.update(self.cents.value() + value["cents"])
        yield {"user": value["user"], "spent": self.cents.value()}


def add_up(brokers: str) -> None:
    """The pipeline; it ends where the topic ends now."""
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    orders = KafkaSource(
        brokers,
        topics=("orders",),
        deserializer=JsonValues(),
        stop=KafkaOffsetsInitializer.latest(),
        group="spending",
    )
    schema = KafkaRecordSerializationSchema("spending", key=lambda record: record["user"].encode())
    spending = (
        env.from_source(orders, source_name="orders").key_by(lambda order: order["user"]).process(Spent())
    )
    spending.sink_to(KafkaSink(brokers, schema)).uid("spending")
    result = env.execute("spending")
    print(f"{result.state}: {result.records} orders")


def place_orders(brokers: str) -> None:
    """Make both topics and fill one."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for made in admin.create_topics([NewTopic(topic, 2, 1) for topic in ("orders", "spending")]).values():
        try:
            made.result()
        except KafkaException as error:
            print(error.args[0].str())
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(ORDERS):
        user = USERS[number % len(USERS)]
        producer.produce("orders", json.dumps({"user": user, "cents": number}), user)
    producer.flush()


def read_sums(brokers: str) -> dict[str, int]:
    """What a reader of committed records sees in the end."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe(["spending"])
    sums: dict[str, int] = {}
    for _ in range(ORDERS):
        message = consumer.poll(30)
        record = json.loads(message.value())
        sums[record["user"]] = max(record["spent"], sums.get(record["user"], 0))
    consumer.close()
    return sums


def main(brokers: str) -> None:
    place_orders(brokers)
    add_up(brokers)
    for user, cents in sorted(read_sums(brokers).items()):
        print(f"{user} spent {cents}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with KafkaService() as broker:
            main(broker.address)
