"""Running totals of payments between two topics as a user writes them first: every option is left at its default."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.common import Types
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
    KafkaSource,
)
from tidegate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)


class Totals(KeyedProcessFunction):
    """How often a user paid, and how much."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        total = (self.total.value() or 0) + value["amount"]
        self.count.update(count)
        self.total.update(total)
        yield {"user": value["user"], "count": count, "total": total}


def main(chosen: dict[str, Any]) -> None:
    """Run to the end of what the topic holds now."""
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
    stop = KafkaOffsetsInitializer.latest()
    payments = env.from_source(
        KafkaSource(brokers, (source_topic,), deserializer=JsonValues(), stop=stop)
    ).filter(lambda payment: payment["amount"] % 10 != 0)
    totals = payments.key_by(lambda payment: payment["user"]).process(Totals())
    schema = KafkaRecordSerializationSchema(target_topic, key=lambda total: total["user"].encode())
    totals.sink_to(KafkaSink(brokers, schema, options=KafkaSinkOptions(prefix=f"totals-{target_topic}")))
    env.execute("payments")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
