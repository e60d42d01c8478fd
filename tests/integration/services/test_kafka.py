from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidegate.errors import ConfigError, UnavailableError
from tidegate.testing.services import KafkaService
from tidegate.testing.services.jars import fetch_jars, fetch_with_resolver
from tidegate.testing.services.kafka import KAFKA_JARS, SOON_BACK
from tidegate.testing.services.repository import Coordinate

pytestmark = pytest.mark.service

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def other() -> Iterator[KafkaService]:
    """A second broker, which tests may kill."""
    with KafkaService(settings=SOON_BACK | {"transaction.max.timeout.ms": "120000"}) as service:
        yield service


def transaction(kafka: KafkaService, topic: str, *values: bytes, commit: bool = True) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(TIMEOUT_S)
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def read_committed(kafka: KafkaService, topic: str) -> list[bytes | None]:
    """Every committed value of partition 0."""
    settings = {"bootstrap.servers": kafka.address, "group.id": topic, "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    while message := consumer.poll(TIMEOUT_S):
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        values.append(message.value())
    consumer.close()
    return values


def test_committed_records_are_read_and_aborted_ones_are_not(kafka: KafkaService) -> None:
    topic = kafka.new_topic()
    transaction(kafka, topic, b"1", b"2")
    transaction(kafka, topic, b"3", commit=False)
    transaction(kafka, topic, b"4")
    assert read_committed(kafka, topic) == [b"1", b"2", b"4"]


def test_a_topic_has_its_partitions_and_a_name_of_its_own(kafka: KafkaService) -> None:
    first, second = kafka.new_topic(partitions=3, prefix="orders"), kafka.new_topic(prefix="orders")
    topics = AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=TIMEOUT_S).topics
    assert [len(topics[name].partitions) for name in (first, second)] == [3, 1]
    assert first.startswith("orders-")


def test_a_record_of_long_ago_is_kept(kafka: KafkaService) -> None:
    topic = ConfigResource(ConfigResource.Type.TOPIC, kafka.new_topic())
    admin = AdminClient({"bootstrap.servers": kafka.address})
    assert admin.describe_configs([topic])[topic].result(TIMEOUT_S)["retention.ms"].value == "-1"


def test_a_topic_that_is_refused_is_reported_by_name(kafka: KafkaService) -> None:
    with pytest.raises(
        UnavailableError, match=r"^topic 'bad-\w+' was not created at 127.0.0.1:\d+: .*; is the broker"
    ):
        kafka.new_topic(partitions=0, prefix="bad")


def test_two_brokers_at_once_know_nothing_of_each_other(kafka: KafkaService, other: KafkaService) -> None:
    topic = other.new_topic()
    assert other.address != kafka.address
    assert (
        topic not in AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=TIMEOUT_S).topics
    )


def test_broker_settings_of_the_user_hold(other: KafkaService) -> None:
    broker = ConfigResource(ResourceType.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": other.address})
    assert (
        admin.describe_configs([broker])[broker].result(TIMEOUT_S)["transaction.max.timeout.ms"].value
        == "120000"
    )


@pytest.mark.crash
def test_a_killed_broker_comes_back_with_its_records_and_address(other: KafkaService) -> None:
    topic, address = other.new_topic(), other.address
    transaction(other, topic, b"before")
    other.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", other.port), timeout=1)
    other.restart()
    transaction(other, topic, b"after")
    assert other.address == address
    assert read_committed(other, topic) == [b"before", b"after"]


def test_a_setting_the_broker_refuses_fails_the_start_with_its_words_and_leaves_nothing(
    assert_nothing_left: Callable[[Path, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    service = KafkaService(settings={"num.io.threads": "many"})
    with pytest.raises(
        UnavailableError, match=r"(?s)^kafka could not be prepared: java exited .*num.io.threads"
    ):
        service.start()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match=r"^the kafka service is not started; use it in a with statement"):
        _ = service.address


def test_the_resolver_fetches_from_central_what_the_broker_runs_with(tmp_path: Path) -> None:
    """Parents five deep, a bill of materials, properties: the knottiest part of the broker's dependencies."""
    fetch_with_resolver(
        [Coordinate("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml", "2.19.0")], tmp_path
    )
    fetched = {jar.name: jar.read_bytes() for jar in tmp_path.iterdir()}
    assert fetched.keys() == {
        "jackson-dataformat-yaml-2.19.0.jar",
        "jackson-databind-2.19.0.jar",
        "jackson-annotations-2.19.0.jar",
        "jackson-core-2.19.0.jar",
        "snakeyaml-2.4.jar",
    }
    assert fetched == {name: (fetch_jars(KAFKA_JARS) / name).read_bytes() for name in fetched}
