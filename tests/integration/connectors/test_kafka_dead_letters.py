"""What cannot be read or written goes to a topic of its own, on a real broker, and can be sent again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest
from confluent_kafka import Producer

from tidegate.clock import new_id
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecords,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
    KafkaSource,
    KafkaSourceOptions,
    PlainKafkaSink,
    StringValues,
)
from tidegate.connectors.spi import Sink
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

LATEST = KafkaOffsetsInitializer.latest()


@pytest.fixture(autouse=True)
def carried_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import this module."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def environment() -> Env:
    return Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})


def records(kafka: KafkaService, topic: str, count: int) -> list[KafkaRecord]:
    """The committed records of a topic."""
    source = KafkaSource(kafka.address, (topic,), deserializer=KafkaRecords(), stop=LATEST)
    found: list[Any] = environment().from_source(source).execute_and_collect(limit=count + 1)
    return sorted(found, key=lambda record: record.offset)


def said(record: KafkaRecord) -> dict[str, str]:
    """Our headers."""
    return {
        name: (value or b"").decode() for name, value in record.headers if name.startswith("dead-letter.")
    }


def test_what_cannot_be_read_keeps_its_bytes_and_tells_where_it_was(kafka: KafkaService) -> None:
    came, went, dead = kafka.new_topic(), kafka.new_topic(), kafka.new_topic()
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    producer.produce(came, b'{"id":1}')
    producer.produce(came, b'{"id":', key=b"ada", headers=[("trace", b"7"), ("none", None)], timestamp=1_000)
    producer.produce(came, b'{"id":2}')
    producer.flush()
    source = KafkaSource(
        kafka.address,
        (came,),
        deserializer=JsonValues(),
        stop=LATEST,
        options=KafkaSourceOptions(on_error="dead_letter"),
        dead_letters=KafkaSink(kafka.address, KafkaRecordSerializationSchema.dead_letters(dead)),
    )
    env = environment()
    stream = env.from_source(source).uid("orders")
    stream.sink_to(KafkaSink(kafka.address, KafkaRecordSerializationSchema(went)))
    name = f"billing-{new_id(8)}"
    env.execute(name)

    assert [record.value for record in records(kafka, went, 2)] == [b'{"id":1}', b'{"id":2}']
    (letter,) = records(kafka, dead, 1)
    assert (letter.value, letter.key, letter.timestamp_ms) == (b'{"id":', b"ada", 1_000)
    assert letter.headers[:2] == (("trace", b"7"), ("none", None))
    assert said(letter) == {
        "dead-letter.error": "DecodeError: Input data was truncated",
        "dead-letter.pipeline": name,
        "dead-letter.operator": "orders",
        "dead-letter.topic": came,
        "dead-letter.partition": "0",
        "dead-letter.offset": "1",
        "dead-letter.timestamp": "1000",
    }
    again = KafkaSource(kafka.address, (dead,), deserializer=StringValues(), stop=LATEST)
    assert environment().from_source(again).execute_and_collect(limit=5) == ['{"id":']


def value(number: int) -> bytes:
    return b"%d" % (12 // number)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_what_cannot_be_written_is_written_as_json_beside_the_rest(
    kafka: KafkaService, delivery: str
) -> None:
    went, dead = kafka.new_topic(), kafka.new_topic()
    schema = KafkaRecordSerializationSchema(went, value)
    sink: Sink = (
        KafkaSink(kafka.address, schema, KafkaSinkOptions(on_error="dead_letter", dead_letters=dead))
        if delivery == "exactly-once"
        else PlainKafkaSink(kafka.address, schema, on_error="dead_letter", dead_letters=dead)
    )
    env = environment()
    env.from_collection([1, 0, 3]).sink_to(sink).uid("totals").set_parallelism(1)
    name = f"sums-{new_id(8)}"
    env.execute(name)

    assert sorted(record.value or b"" for record in records(kafka, went, 2)) == [b"12", b"4"]
    (letter,) = records(kafka, dead, 1)
    assert letter.value == b"0"
    assert said(letter)["dead-letter.error"].startswith(
        "RecordError: kafka sink: cannot make the value of record 0"
    )
    assert (said(letter)["dead-letter.form"], said(letter)["dead-letter.operator"]) == ("json", "totals")


def test_what_cannot_be_written_is_left_out_where_the_program_says_so(kafka: KafkaService) -> None:
    went = kafka.new_topic()
    env = environment()
    sink = KafkaSink(
        kafka.address, KafkaRecordSerializationSchema(went, value), KafkaSinkOptions(on_error="skip")
    )
    env.from_collection([0, 0, 3, 0]).sink_to(sink).uid("totals")
    env.execute(f"sums-{new_id(8)}")
    assert [record.value for record in records(kafka, went, 1)] == [b"4"]
