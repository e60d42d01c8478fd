"""A broker that asks for permissions: `tidegate check` names each one that is missing before a start does."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK, new_id
from tidegate.connectors.formats import SimpleStringSchema
from tidegate.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkOptions,
    KafkaSource,
)
from tidegate.connectors.kafka._client import Cluster
from tidegate.connectors.kafka._wire import Wire
from tidegate.connectors.kafka.pool import id_pattern
from tidegate.connectors.spi import JobFacts, SupportsPreflight
from tidegate.errors import TidegateError
from tidegate.ids import OperatorUid, PipelineId
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

FACTS = JobFacts(PipelineId("orders"), 1_000, 1_000, None, OperatorUid("sink"))
API_VERSIONS = 18
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required username="admin" password="a" user_admin="a" user_ada="b";'
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",  # the controller's own listener knows no users
    "auto.create.topics.enable": "false",
}


def login(user: str, password: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


ADMIN, ADA = login("admin", "a"), login("ada", "b")


class GuardedService(KafkaService):
    """A broker that answers nothing but its versions to whoever has not logged in."""

    def _answers(self) -> bool:
        request = struct.pack(">hhih", API_VERSIONS, 0, 0, -1)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
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
    return AdminClient({"bootstrap.servers": guarded.address, **ADMIN, "log_level": 0})


@pytest.fixture
def topic(guarded: KafkaService, admin: AdminClient) -> str:
    name = f"orders-{new_id(8)}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    until(lambda: name in Cluster({"bootstrap.servers": guarded.address, **ADMIN}).topics([name]))
    return name


def grant(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    """Let ada do something; what begins with the name is meant, too."""
    binding = AclBinding(
        kind,
        name,
        ResourcePatternType.PREFIXED,
        "User:ada",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([binding])[binding].result()


def told(connector: SupportsPreflight) -> list[tuple[str, str]]:
    return [(each.verdict, each.found) for each in connector.preflight(FACTS)]


def source_of(guarded: KafkaService, topic: str) -> KafkaSource:
    return KafkaSource(guarded.address, (topic,), properties=ADA)


def sink_of(guarded: KafkaService, topic: str) -> KafkaSink:
    schema = KafkaRecordSerializationSchema(topic, SimpleStringSchema())
    return KafkaSink(guarded.address, schema, KafkaSinkOptions(prefix=topic), ADA)


def test_a_topic_that_may_be_seen_and_not_read_is_a_problem_until_it_is_granted(
    guarded: KafkaService, admin: AdminClient, topic: str
) -> None:
    source = source_of(guarded, topic)
    grant(admin, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    denied = ("problem", f"topic {topic!r} cannot be read: permission denied; got DESCRIBE")
    until(lambda: told(source)[1:], equals=[denied])

    grant(admin, ResourceType.TOPIC, topic, AclOperation.READ)

    until(lambda: told(source)[1:], equals=[("ok", f"topic {topic!r} exists and can be read")])


def test_a_topic_that_may_not_be_seen_is_a_problem_with_no_permissions(
    guarded: KafkaService, topic: str
) -> None:
    denied = ("problem", f"topic {topic!r} cannot be read: permission denied; got none")

    assert told(source_of(guarded, topic)) == [("ok", f"{guarded.address} answers"), denied]


def test_permissions_on_the_topic_and_on_the_transactional_ids_of_a_sink_are_told_apart(
    guarded: KafkaService, admin: AdminClient, topic: str
) -> None:
    sink = sink_of(guarded, topic)
    grant(admin, ResourceType.TOPIC, topic, AclOperation.READ)
    until(lambda: "got DESCRIBE, READ" in told(sink)[1][1])
    assert [verdict for verdict, _ in told(sink)] == ["ok", "problem", "problem"]

    grant(admin, ResourceType.TOPIC, topic, AclOperation.WRITE)
    until(lambda: [verdict for verdict, _ in told(sink)], equals=["ok", "ok", "problem"])
    assert f"permission denied for '{topic}-0-0'" in told(sink)[2][1]
    grant(admin, ResourceType.TRANSACTIONAL_ID, topic, AclOperation.DESCRIBE)
    assert [verdict for verdict, _ in told(sink)] == ["ok", "ok", "problem"]

    grant(admin, ResourceType.TRANSACTIONAL_ID, topic, AclOperation.WRITE)
    until(
        lambda: told(sink)[1:],
        equals=[
            ("ok", f"topic {topic!r} exists and can be written"),
            ("ok", f"transactional ids that begin with {topic!r} can be used"),
        ],
    )


def test_looking_at_transactional_ids_makes_none(guarded: KafkaService, topic: str) -> None:
    sink = replace(sink_of(guarded, topic), properties=ADMIN)

    assert [verdict for verdict, _ in told(sink)] == ["ok", "ok", "ok"]
    wire = Wire({"bootstrap.servers": guarded.address, **ADMIN}, SYSTEM_CLOCK)
    assert wire.producers(id_pattern(topic)) == []
    wire.close()


def test_a_wrong_password_is_said_to_be_one(guarded: KafkaService, topic: str) -> None:
    source = KafkaSource(guarded.address, (topic,), properties=ADA | {"sasl.password": "wrong"})

    with pytest.raises(TidegateError, match="refused the connection"):
        told(source)
