"""Jobs that read Kafka, on a real broker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from tests.waiting import PATIENCE_S, until
from tidegate.clock import new_id
from tidegate.common import SimpleStringSchema, WatermarkStrategy
from tidegate.connectors.files import FileSink, TextLines
from tidegate.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecords,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceOptions,
    StringValues,
)
from tidegate.connectors.kafka._client import Cluster
from tidegate.connectors.spi import JobFacts
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.kafka import FlinkKafkaConsumer
from tidegate.errors import ConfigError, JobFailedError, UnavailableError
from tidegate.ids import OperatorUid, PipelineId
from tidegate.testing.services import KafkaService
from tidegate.twophase.naming import owner_name

pytestmark = pytest.mark.service

LATEST = KafkaOffsetsInitializer.latest()

Environment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture(params=["inline", pytest.param("embedded", marks=pytest.mark.processes)])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Environment:
    def build(**settings: Any) -> StreamExecutionEnvironment:
        return StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": request.param,
                "parallelism.default": "2",
                "state.checkpoints.dir": str(tmp_path),
                "execution.checkpointing.interval": "100 ms",
                "restart-strategy.fixed-delay.attempts": "0",
                "pipeline.progress": "off",
                **settings,
            }
        )

    return build


def produce(kafka: KafkaService, topic: str, values: Iterable[str], **more: Any) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for value in values:
        producer.produce(topic, value, **more)
    assert producer.flush(PATIENCE_S) == 0


def committed(kafka: KafkaService, group: str, topic: str, partitions: int) -> int:
    """How many records of a topic the group is past."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group, "log_level": 0})
    asked = [TopicPartition(topic, partition) for partition in range(partitions)]

    def heard() -> list[TopicPartition]:
        with contextlib.suppress(KafkaException):  # a new broker is still making a place for offsets
            return list(consumer.committed(asked, 30))
        return []

    found = until(heard)
    consumer.close()
    return sum(max(0, each.offset) for each in found)


def test_a_bounded_job_reads_every_record_and_its_group_ends_where_the_topic_does(
    kafka: KafkaService, environment: Environment
) -> None:
    topic, group = kafka.new_topic(4), new_id()
    values = [f"record {number}" for number in range(1_000)]
    produce(kafka, topic, values)
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), stop=LATEST, group=group)

    assert committed(kafka, group, topic, 4) == 0  # a new broker now has somewhere to keep offsets of groups

    read = list(environment().from_source(source).execute_and_collect())

    assert sorted(read) == sorted(values)
    assert committed(kafka, group, topic, 4) == len(values)


def test_pyflinks_builder_and_older_class_read_the_same(
    kafka: KafkaService, environment: Environment, tmp_path: Path
) -> None:
    topic = kafka.new_topic()
    produce(kafka, topic, ["a", "b"])
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.address)
        .set_topics(topic)
        .set_group_id("pyflink")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(LATEST)
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    env = environment()
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
    assert sorted(stream.execute_and_collect()) == ["a", "b"]

    consumer = FlinkKafkaConsumer(
        topic, SimpleStringSchema(), {"bootstrap.servers": kafka.address, "group.id": "old"}
    )
    env = environment()
    env.add_source(consumer.set_start_from_earliest()).sink_to(FileSink(tmp_path / "out", TextLines()))
    client = env.execute_async("older")
    until(lambda: _words(tmp_path / "out"), equals=["a", "b"], job=client)
    client.cancel().result(PATIENCE_S)


def test_whole_records_come_with_key_headers_time_and_place(
    kafka: KafkaService, environment: Environment
) -> None:
    topic = kafka.new_topic(2)
    produce(kafka, topic, ["v"], key="k", headers=[("trace", b"7")], timestamp=1_234, partition=1)
    source = KafkaSource(kafka.address, (topic,), deserializer=KafkaRecords(), stop=LATEST)

    read = list(environment().from_source(source).execute_and_collect())

    assert read == [KafkaRecord(topic, 1, 0, 1_234, b"k", b"v", (("trace", b"7"),))]


def test_a_bounded_source_ends_though_a_transaction_left_a_gap_at_the_end(
    kafka: KafkaService, environment: Environment
) -> None:
    topic = kafka.new_topic()
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    for value, keep in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(PATIENCE_S)
        producer.commit_transaction() if keep else producer.abort_transaction()
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), stop=LATEST)

    assert list(environment().from_source(source).execute_and_collect()) == ["kept"]


def test_a_partition_added_while_the_job_runs_is_read(
    kafka: KafkaService, environment: Environment, tmp_path: Path
) -> None:
    topic = kafka.new_topic()
    produce(kafka, topic, ["old"])
    options = KafkaSourceOptions(discovery_interval_ms=100)
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), options=options)
    env = environment()
    env.from_source(source).sink_to(FileSink(tmp_path / "out", TextLines()))
    client = env.execute_async("growing")
    until(lambda: _words(tmp_path / "out"), equals=["old"], job=client)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    until(lambda: _partitions(admin, topic), equals=2)
    produce(kafka, topic, ["new"], partition=1)
    until(lambda: _words(tmp_path / "out"), equals=["new", "old"], job=client)
    client.cancel().result(PATIENCE_S)


def test_a_topic_made_anew_since_the_checkpoint_stops_the_next_start_unless_it_may_be_read_from_its_beginning(
    kafka: KafkaService, environment: Environment, tmp_path: Path
) -> None:
    topic = kafka.new_topic()
    produce(kafka, topic, ["first"])
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues())
    env = environment()
    env.from_source(source).print()
    client = env.execute_async("anew")
    client.stop_with_savepoint(False, str(tmp_path / "savepoint")).result(PATIENCE_S)
    client.get_job_execution_result().result(PATIENCE_S)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.delete_topics([topic])[topic].result()
    until(lambda: _partitions(admin, topic), equals=0)
    _create(admin, topic)

    env = environment()
    env.from_source(source).print()
    with pytest.raises(
        (ConfigError, JobFailedError), match=f"topic '{topic}' was removed and created again since"
    ):
        env.execute("anew")

    produce(kafka, topic, ["second"])
    env = environment()
    reset = KafkaSourceOptions(on_topic_change="reset")
    again = replace(source, stop=LATEST, bounded=True, options=reset)
    env.from_source(again).sink_to(FileSink(str(tmp_path / "out"), TextLines()))
    env.execute("anew")
    written = [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    assert written == ["second"]


def test_a_topic_that_does_not_exist_is_named(kafka: KafkaService, environment: Environment) -> None:
    source = KafkaSource(kafka.address, ("no-such-topic",), stop=LATEST)
    with pytest.raises(
        (ConfigError, JobFailedError), match="topic 'no-such-topic' does not exist; create it"
    ):
        list(environment().from_source(source).execute_and_collect())


def test_an_unreadable_record_is_named_with_its_place(kafka: KafkaService, environment: Environment) -> None:
    topic = kafka.new_topic()
    produce(kafka, topic, ["fine"])
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce(topic, b"\xff")
    producer.flush()
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), stop=LATEST)
    with pytest.raises(Exception, match=rf"kafka topic '{topic}' partition 0 offset 1 cannot be read"):
        list(environment().from_source(source).execute_and_collect())


def test_brokers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.connectors.kafka import _client

    monkeypatch.setattr(_client, "TIMEOUT_S", 0.5)
    cluster = Cluster({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(
        UnavailableError,
        match=r"^kafka cluster: no answer from brokers 127.0.0.1:1 \(.*check that they are running",
    ):
        cluster.topics(["orders"])


def test_a_property_that_the_client_does_not_take_is_named_without_its_value() -> None:
    for key in ("sasl.no.such.property", "security.protocol"):
        with pytest.raises(
            ConfigError, match=rf"^kafka property '{key}' is unknown to the client or has"
        ) as told:
            Cluster({"bootstrap.servers": "b:1", key: "hunter2"})
        assert "hunter2" not in f"{told.value} {told.value.__cause__}"
        assert told.value.__suppress_context__


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaService]:
    """A broker that checks permissions."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    with KafkaService(settings=settings) as service:
        yield service


def test_a_missing_permission_is_named(guarded: KafkaService) -> None:
    topic = guarded.new_topic()
    admin = AdminClient({"bootstrap.servers": guarded.address})
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:somebody",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([rule])[rule].result()
    cluster = Cluster({"bootstrap.servers": guarded.address})
    with pytest.raises(
        ConfigError, match=rf"^kafka topic '{topic}': permission denied \(TOPIC_AUTHORIZATION_FAILED"
    ):
        until(lambda: not cluster.topics([topic]))  # answers until the rule takes effect


def _create(admin: AdminClient, topic: str) -> None:
    from confluent_kafka.admin import NewTopic

    def created() -> bool:
        with contextlib.suppress(KafkaException):  # the old one is still being deleted
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
            return True
        return False

    until(created)
    until(lambda: _partitions(admin, topic), equals=1)


def _words(directory: Path) -> list[str]:
    return sorted("".join(path.read_text() for path in directory.glob("*.txt")).split())


def _partitions(admin: AdminClient, topic: str) -> int:
    found = admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def test_brokers_and_topics_are_looked_at_before_a_start(kafka: KafkaService) -> None:
    facts = JobFacts(PipelineId("orders"), 1_000, 1_000, None, OperatorUid("totals"))
    there = kafka.new_topic()
    sink = KafkaSink(kafka.address, KafkaRecordSerializationSchema("not-there", SimpleStringSchema()))

    prefix = owner_name(facts.pipeline, facts.uid)
    found = [*KafkaSource(kafka.address, (there, "missing")).preflight(facts), *sink.preflight(facts)]

    assert [(each.verdict, each.found) for each in found] == [
        ("ok", f"{kafka.address} answers"),
        ("problem", f"topic 'missing' does not exist at {kafka.address}"),
        ("ok", f"topic {there!r} exists and can be read"),
        ("ok", f"{kafka.address} answers"),
        ("problem", f"topic 'not-there' does not exist at {kafka.address}"),
        ("ok", f"transactional ids that begin with {prefix!r} can be used"),
    ]
