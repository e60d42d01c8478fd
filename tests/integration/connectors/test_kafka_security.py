"""A broker that asks who is there: secrets go to both clients and into no message, and a refusal is named at once."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.formats import SimpleStringSchema
from tidegate.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
    KafkaSource,
    StringValues,
)
from tidegate.connectors.kafka._client import Cluster
from tidegate.connectors.kafka.writer import TransactionalWriter
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.testing.services import KafkaService
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, WriterContext

pytestmark = pytest.mark.service

UID = OperatorUid("sink")
WRITER = WriterContext(
    PipelineId("orders"), UID, Subtask("sink", 0), 1, LineageId("1f"), Branch(0), "a", (), SYSTEM_CLOCK
)
COMMITTER = CommitterContext(PipelineId("orders"), UID, LineageId("1f"), SYSTEM_CLOCK)
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ada",
    "sasl.password": "hunter2",
}
WRONG = {**LOGIN, "sasl.password": "swordfish"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="ada" password="hunter2" user_ada="hunter2";'
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
}
API_VERSIONS = 18


class GuardedService(KafkaService):
    """A broker that answers nothing but its versions to whoever has not said who they are."""

    def _answers(self) -> bool:
        request = struct.pack(">hhih", API_VERSIONS, 0, 0, -1)
        try:
            with closing(socket.create_connection(("127.0.0.1", self.port), timeout=1)) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                return len(connection.recv(8, socket.MSG_WAITALL)) == 8
        except OSError:
            return False


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaService]:
    with GuardedService(settings=SETTINGS) as service:
        yield service


@pytest.fixture
def admin(guarded: KafkaService) -> AdminClient:
    return AdminClient({"bootstrap.servers": guarded.address, **LOGIN})


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    name = f"topic-{abs(hash(request.node.name))}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    return name


def sink_of(guarded: KafkaService, topic: str, **properties: Any) -> KafkaSink:
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema())
    return KafkaSink(guarded.address, schema, KafkaSinkOptions(prefix=topic), {**LOGIN, **properties})


def prepared(writer: TransactionalWriter, number: int) -> Committable:
    found = writer.prepare(CheckpointId(number))
    assert found is not None
    return Committable(UID, 0, CheckpointId(number), *found)


def environment(state: Path) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "state.checkpoints.dir": str(state), "pipeline.progress": "off"}
    )


def test_who_has_the_password_writes_recovers_and_reads(
    guarded: KafkaService, topic: str, tmp_path: Path
) -> None:
    sink = sink_of(guarded, topic)
    committer = sink.open_committer(COMMITTER)
    committer.abort_except(())
    writer = sink.open_writer(WRITER)
    writer.write(Batch(["kept"]))
    work = prepared(writer, 1)
    writer.close()  # from here on it can only be committed over the wire

    assert committer.commit([work]) == [CommitAnswer.COMMITTED]
    committer.close()
    source = KafkaSource(
        guarded.address,
        (topic,),
        deserializer=StringValues(),
        stop=KafkaOffsetsInitializer.latest(),
        properties=LOGIN,
    )
    assert list(environment(tmp_path).from_source(source).execute_and_collect()) == ["kept"]


def test_a_wrong_password_is_named_and_stops_the_job_without_being_shown(
    guarded: KafkaService, topic: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refused = rf"brokers {guarded.address} did not let the client in \(_AUTHENTICATION.*; check the security"
    latest = KafkaOffsetsInitializer.latest()
    source = KafkaSource(guarded.address, (topic,), stop=latest, properties=WRONG)
    schema = KafkaRecordSerializationSchema(topic)
    reading, writing = environment(tmp_path / "1"), environment(tmp_path / "2")
    reading.from_source(source).print()
    writing.from_collection([1]).sink_to(KafkaSink(guarded.address, schema, properties=WRONG))
    for env in (reading, writing):
        with pytest.raises(ConfigError, match=refused) as told:
            env.execute("refused")
        assert "swordfish" not in str(told.value)
    shown = "".join(capfd.readouterr())
    assert "swordfish" not in shown
    assert "hunter2" not in shown


def test_an_output_topic_that_is_deleted_while_it_is_written_is_named(
    guarded: KafkaService, topic: str, admin: AdminClient
) -> None:
    quick = {"topic.metadata.propagation.max.ms": 100, "topic.metadata.refresh.interval.ms": 100}
    writer = sink_of(guarded, topic, **quick).open_writer(WRITER)
    writer.write(Batch(["in time"]))
    prepared(writer, 1)
    admin.delete_topics([topic])[topic].result()
    writer.write(Batch(["too late"]))
    with pytest.raises(
        UnavailableError, match=rf"^kafka sink, topic '{topic}': there is no such topic or partition"
    ):
        writer.prepare(CheckpointId(2))
    writer.close()


def test_a_cluster_that_lets_us_in_is_asked_once(guarded: KafkaService, topic: str) -> None:
    cluster = Cluster({"bootstrap.servers": guarded.address, **LOGIN})
    cluster.reach()
    cluster.reach()
    assert cluster.topics([topic]).keys() == {topic}
