"""The running totals again, from one topic of Kafka to another; what is no payment goes to a third."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Types
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
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


def held(place: Path) -> Callable[[Any], Any]:
    """Whoever reads one of the last records, once a task waits in front of the sink, waits to be told that the end may come."""

    def hold(value: Any) -> Any:
        if value["id"] > 2_500 and (place / "straggler").exists():
            (place / "held").touch()
            await_file(place / "end")
        return value

    return hold


def straggling(place: Path) -> Callable[[Any], Any]:
    """The first task that comes along waits, in front of the sink, until it is told to go on; its copy passes."""

    def straggle(value: Any) -> Any:
        try:
            (place / "straggler").touch(exist_ok=False)
        except FileExistsError:
            return value
        await_file(place / "go")
        return value

    return straggle


def await_file(path: Path) -> None:
    while not path.exists():
        SYSTEM_CLOCK.sleep(0.02)


def sink(brokers: str, target: str, schema: Callable[[str], Any]) -> KafkaSink:
    """A sink for `topic`, or for `topic:milliseconds` if its transactions are to run out so soon."""
    topic, _, timeout = target.partition(":")
    options = KafkaSinkOptions(transaction_timeout_ms=int(timeout) if timeout else None)
    return KafkaSink(brokers, schema(topic), options)


def build(env: StreamExecutionEnvironment, brokers: str, topics: str, rate: float) -> None:
    """`topics` are the source, that of dead letters, and one or more targets."""
    source_topic, dead_topic, *targets = topics.split(",")
    source = KafkaSource(
        brokers,
        (source_topic,),
        deserializer=JsonValues(),
        stop=KafkaOffsetsInitializer.latest(),
        group=source_topic,
        options=KafkaSourceOptions(on_error="dead_letter"),
        dead_letters=sink(brokers, dead_topic, KafkaRecordSerializationSchema.dead_letters),
    )
    payments = (
        env.from_source(source)
        .uid(f"from-{targets[0].partition(':')[0]}")
        .map(Paced(1 / rate))
        .filter(lambda p: p["amount"] > 0)
    )
    late = os.environ.get("TOTALS_LATE")
    if late:
        payments = payments.map(held(Path(late)))
    added_up = payments.key_by(lambda p: p["account"]).process(Totals()).uid("totals")
    if late:
        added_up = added_up.map(straggling(Path(late)))
    for target in targets:
        to = sink(brokers, target, KafkaRecordSerializationSchema)
        added_up.sink_to(to).uid(target.partition(":")[0])


def main(brokers: str, topics: str, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    build(env, brokers, topics, rate)
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    _, _, rate, settings, brokers, topics = sys.argv[1:]
    main(brokers, topics, float(rate), json.loads(settings))
