"""The running totals again, from one topic of Kafka to another; what is no payment goes to a third."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Types
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceOptions,
)
from tidegate.datastream import (
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
        self.total.update(self.total.value() + value["amount"])
        yield {"id": value["id"], "account": value["account"], "total": self.total.value()}


class Paced(MapFunction):
    """Takes its time, so that there are several checkpoints."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def map(self, value: Any) -> Any:
        SYSTEM_CLOCK.sleep(self._seconds)
        return value


def main(brokers: str, topics: str, rate: float, settings: dict[str, Any]) -> None:
    source_topic, target_topic, dead_topic = topics.split(",")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = KafkaSource(
        brokers,
        (source_topic,),
        deserializer=JsonValues(),
        stop=KafkaOffsetsInitializer.latest(),
        group=source_topic,
        options=KafkaSourceOptions(on_error="dead_letter"),
        dead_letters=KafkaSink(brokers, KafkaRecordSerializationSchema.dead_letters(dead_topic)),
    )
    payments = (
        env.from_source(source)
        .uid(f"from-{target_topic}")
        .map(Paced(1 / rate))
        .filter(lambda p: p["amount"] > 0)
    )
    added_up = payments.key_by(lambda p: p["account"]).process(Totals()).uid("totals")
    added_up.sink_to(KafkaSink(brokers, KafkaRecordSerializationSchema(target_topic))).uid(target_topic)
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    _, _, rate, settings, brokers, topics = sys.argv[1:]
    main(brokers, topics, float(rate), json.loads(settings))
