"""The formats of a schema registry on a real one, and on a real broker from topic to topic."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.type_pb2 import Field

from tidegate.clock import new_id
from tidegate.connectors.formats import RegistryAvro, RegistryJson, RegistryProtobuf, SchemaRegistry
from tidegate.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    SchemaValues,
)
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.errors import ConfigError, RecordError
from tidegate.testing.services import KafkaService, SchemaRegistryService

pytestmark = pytest.mark.service

LATEST = KafkaOffsetsInitializer.latest()


def order(*fields: dict[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *fields]}
    )


USER = {"name": "user", "type": "string"}
WITH_DEFAULT = {**USER, "default": "nobody"}
ID_TEXT = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})


@pytest.fixture
def registry(schema_registry: SchemaRegistryService) -> SchemaRegistry:
    return SchemaRegistry(schema_registry.url)


@pytest.fixture
def subject() -> str:
    return f"orders-{new_id(8)}-value"


def test_avro_is_read_as_it_was_written_and_as_newer_programs_want_it(
    registry: SchemaRegistry, subject: str
) -> None:
    message = RegistryAvro(registry, order(), subject=subject).serialize({"id": 7})
    assert RegistryAvro(registry).deserialize(message) == {"id": 7}
    newer = RegistryAvro(registry, order(WITH_DEFAULT), subject=subject)
    assert newer.deserialize(message) == {"id": 7, "user": "nobody"}
    assert newer.serialize({"id": 7, "user": "ada"})[:5] != message[:5]
    again = RegistryAvro(
        SchemaRegistry(registry.url, username="ada"), order(), subject=subject, register=False
    )
    assert again.serialize({"id": 7}) == message


def test_a_schema_that_old_messages_do_not_fit_is_refused_by_the_subject(
    registry: SchemaRegistry, subject: str
) -> None:
    RegistryAvro(registry, order(), subject=subject).serialize({"id": 7})
    with pytest.raises(
        ConfigError, match=rf"subject '{subject}' has schemas that are incompatible with this one: \S"
    ):
        RegistryAvro(registry, order(USER), subject=subject).serialize({"id": 7, "user": "ada"})
    with pytest.raises(
        ConfigError, match=rf"subject '{subject}' does not have the schema; register it first"
    ):
        RegistryAvro(registry, order(WITH_DEFAULT), subject=subject, register=False).serialize({"id": 7})


def test_json_is_checked_on_both_sides(registry: SchemaRegistry, subject: str) -> None:
    orders = RegistryJson(registry, ID_TEXT, subject=subject)
    message = orders.serialize({"id": 7})
    assert orders.deserialize(message) == {"id": 7}
    with pytest.raises(RecordError, match=r"data.id must be integer"):
        orders.serialize({"id": "7"})
    with pytest.raises(RecordError, match=r"data must contain \['id'\] properties"):
        orders.deserialize(message[:5] + b"{}")


@pytest.mark.parametrize(
    ("message", "kind", "head"),
    [
        (Field(name="id", number=3), Field, b"\x02\x02"),
        (DescriptorProto.ExtensionRange(start=1, end=9), DescriptorProto.ExtensionRange, b"\x04\x04\x00"),
    ],
    ids=["a type of several", "a nested type"],
)
def test_protobuf_messages_say_which_type_of_their_file_they_are(
    registry: SchemaRegistry, subject: str, message: Any, kind: Any, head: bytes
) -> None:
    orders = RegistryProtobuf(registry, kind, subject=subject)
    written = orders.serialize(message)
    assert written[5:].startswith(head)
    assert orders.deserialize(written) == message


def test_a_schema_that_nobody_registered_is_named(registry: SchemaRegistry) -> None:
    with pytest.raises(RecordError, match=r"^schema 999999 is not in the registry http://127.0.0.1"):
        RegistryAvro(registry).deserialize(b"\0\x00\x0f\x42\x3f")


@pytest.mark.parametrize("message", [b"{}", b"\0\x00\x0f\x42\x3f"], ids=["no magic byte", "no such schema"])
def test_a_message_that_no_schema_reads_is_named_with_its_place(
    kafka: KafkaService, registry: SchemaRegistry, message: bytes
) -> None:
    topic = kafka.new_topic()
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    producer.produce(topic, message)
    producer.flush()
    env = Env.get_execution_environment({"execution.target": "inline", "restart-strategy.type": "none"})
    source = KafkaSource(
        kafka.address, (topic,), deserializer=SchemaValues(RegistryAvro(registry)), stop=LATEST
    )
    with pytest.raises(
        Exception, match=rf"kafka topic '{topic}' partition 0 offset 0 cannot be read \(RecordError: "
    ):
        env.from_source(source).execute_and_collect(limit=1)


def test_avro_goes_from_topic_to_topic(kafka: KafkaService, registry: SchemaRegistry) -> None:
    came, went = kafka.new_topic(2), kafka.new_topic(2)
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    writer = RegistryAvro(registry, order(), subject=f"{came}-value")
    for number in range(20):
        producer.produce(came, writer.serialize({"id": number}), partition=number % 2)
    producer.flush()

    def read(topic: str) -> KafkaSource:
        reader = RegistryAvro(registry, order(WITH_DEFAULT))
        return KafkaSource(kafka.address, (topic,), deserializer=SchemaValues(reader), stop=LATEST)

    env = Env.get_execution_environment({"execution.target": "embedded", "parallelism.default": "2"})
    schema = RegistryAvro(registry, order(WITH_DEFAULT), subject=f"{went}-value")
    stream = env.from_source(read(came))
    stream.sink_to(KafkaSink(kafka.address, KafkaRecordSerializationSchema(went, schema)))
    env.execute()
    again = Env.get_execution_environment({"execution.target": "inline"})
    found = again.from_source(read(went)).execute_and_collect(limit=20)
    assert sorted(found, key=lambda each: each["id"]) == [
        {"id": number, "user": "nobody"} for number in range(20)
    ]
