"""A broker that asks who is there: secrets go to both clients and into no message, and a refusal is named at once."""

from __future__ import annotations

import base64
import json
import socket
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
from tidegate.connectors.kafka.security import admitted
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


def identity() -> tuple[str, str]:
    """A certificate that vouches for itself and for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2124, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    unlocked = serialization.NoEncryption()
    shown = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unlocked)
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), shown.decode()


CERTIFICATE, KEY = identity()
TLS = {
    "security.protocol": "SASL_SSL",
    "ssl.ca.pem": CERTIFICATE,
    "ssl.certificate.pem": CERTIFICATE,
    "ssl.key.pem": KEY,
}
LOGIN = {**TLS, "sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "hunter2"}
WRONG = {**LOGIN, "sasl.password": "swordfish"}
MODULES = "org.apache.kafka.common.security"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required username="ada" password="hunter2" user_ada="hunter2";'
    ),
    "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
        f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    ),
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "ssl.client.auth": "required",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.certificate.chain": CERTIFICATE.replace("\n", "\\n"),
    "ssl.keystore.key": KEY.replace("\n", "\\n"),
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": CERTIFICATE.replace("\n", "\\n"),
}
API_VERSIONS = 18
SECURED = admitted({"bootstrap.servers": "", **TLS}, SYSTEM_CLOCK)["ssl_context"]


class GuardedService(KafkaService):
    """A broker that answers nothing but its versions to whoever has not said who they are."""

    def _answers(self) -> bool:
        request = struct.pack(">hhih", API_VERSIONS, 0, 0, -1)
        try:
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=1)
            with plain, SECURED.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                return len(connection.recv(8)) > 0
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


def token_of(user: str) -> tuple[str, float]:
    """A token that nobody signed, as the broker's own check for trials takes it."""
    now = SYSTEM_CLOCK.now_ms() // 1_000
    parts: list[dict[str, Any]] = [{"alg": "none"}, {"sub": user, "iat": now, "exp": now + 600}]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""]), now + 600.0


BY_TOKEN = {
    **TLS,
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.config": "ada",
    "oauth_cb": token_of,
}


@pytest.mark.parametrize("login", [LOGIN, BY_TOKEN], ids=["password", "token"])
def test_who_is_known_writes_recovers_and_reads(
    guarded: KafkaService, topic: str, tmp_path: Path, login: dict[str, Any]
) -> None:
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema())
    sink = KafkaSink(guarded.address, schema, KafkaSinkOptions(prefix=topic), login)
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
        properties=login,
    )
    assert list(environment(tmp_path).from_source(source).execute_and_collect()) == ["kept"]


def test_a_wrong_password_is_named_and_stops_the_job_without_being_shown(
    guarded: KafkaService, topic: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    refused = rf"brokers {guarded.address} refused the connection \(_AUTHENTICATION.*; check the security"
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
    assert "PRIVATE KEY" not in shown


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
        UnavailableError, match=rf"^kafka sink, topic '{topic}': topic or partition does not exist"
    ):
        writer.prepare(CheckpointId(2))
    writer.close()


def test_a_cluster_that_lets_us_in_is_asked_once(guarded: KafkaService, topic: str) -> None:
    cluster = Cluster({"bootstrap.servers": guarded.address, **LOGIN})
    cluster.reach()
    cluster.reach()
    assert cluster.topics([topic]).keys() == {topic}
