"""Counts the orders of each user and second, from one topic of Kafka to another."""

from __future__ import annotations

import json
import sys
from typing import Any

from tidegate.common import Duration, SimpleStringSchema, WatermarkStrategy
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.window import TumblingEventTimeWindows


def run(brokers: str, orders: str, counts: str, settings: dict[str, Any]) -> Any:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda order, _: order["at"]
    )
    until = KafkaOffsetsInitializer.latest()
    source = KafkaSource(brokers, (orders,), deserializer=JsonValues(), stop=until)
    ones = env.from_source(source, stamps).set_parallelism(1).map(lambda order: (order["user"], 1))
    seconds = ones.key_by(lambda one: one[0]).window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    counted = seconds.reduce(lambda first, second: (first[0], first[1] + second[1]))
    schema = KafkaRecordSerializationSchema(counts, SimpleStringSchema())
    counted.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(KafkaSink(brokers, schema))
    return env.execute("counted")


if __name__ == "__main__":
    _, brokers, orders, counts, settings = sys.argv
    run(brokers, orders, counts, json.loads(settings))
