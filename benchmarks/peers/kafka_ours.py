"""Running totals, and the mere passing on, from one topic of Kafka to another, exactly once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, TypedDict

from tidegate.common import Types
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceOptions,
    RawValues,
)
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class Payment(TypedDict):
    """What the totals need of a message; the rest of it is not made into objects."""

    user: str
    amount: int


class Totals(KeyedProcessFunction):
    """How often a user paid, and how much."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))

    def process_element(self, value: Payment, ctx: Any) -> Iterator[dict[str, Any]]:
        count = self.count.value() + 1
        total = self.total.value() + value["amount"]
        self.count.update(count)
        self.total.update(total)
        yield {"user": value["user"], "count": count, "total": total}


DESERIALIZERS = {"totals": JsonValues(Payment), "totals of all fields": JsonValues(), "pass": RawValues()}


def main(job: str, chosen: dict[str, Any]) -> None:
    """Run a job to the end of what the topic holds now."""
    brokers, source_topic, target_topic, folder = (
        os.environ[name] for name in ("BS", "IN_TOPIC", "OUT_TOPIC", "WORKDIR")
    )
    settings = {
        "state.checkpoints.dir": folder,
        "parallelism.default": 1,
        "execution.checkpointing.interval": "5 s",
        "pipeline.progress": "off",
    }
    env = StreamExecutionEnvironment.get_execution_environment({**settings, **chosen})
    source = KafkaSource(
        brokers,
        (source_topic,),
        deserializer=DESERIALIZERS[job],
        stop=KafkaOffsetsInitializer.latest(),
        options=KafkaSourceOptions(timestamps=False),
    )
    messages = env.from_source(source)
    if job != "pass":
        payments = messages.filter(lambda payment: payment["amount"] % 10 != 0)
        totals = payments.key_by(itemgetter("user")).process(Totals())
        schema = KafkaRecordSerializationSchema(target_topic, key=lambda total: total["user"].encode())
    else:
        totals, schema = messages, KafkaRecordSerializationSchema(target_topic, value=bytes)
    totals.sink_to(KafkaSink(brokers, schema, properties={"linger.ms": 50}))
    env.execute(job)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
