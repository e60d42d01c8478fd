"""Kafka broker service for tests and experiments: one node, KRaft, with transactions.

The broker's jars are fetched once from Maven Central and kept in the user's cache directory; Java runs them.

Example:
    with KafkaService() as kafka:
        topic = kafka.new_topic(partitions=3)
        Producer({"bootstrap.servers": kafka.address}).produce(topic, b"hello")
"""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from tidegate.clock import SYSTEM_CLOCK, Clock, new_id
from tidegate.errors import ConfigError, MissingExtraError
from tidegate.testing.services.jars import fetch_jars
from tidegate.testing.services.java import find_java
from tidegate.testing.services.process import LOOPBACK, Port
from tidegate.testing.services.repository import Coordinate
from tidegate.testing.services.service import Service

__all__ = ["KAFKA_JARS", "SOON_BACK", "KafkaService"]

KAFKA_JARS = (
    Coordinate("org.apache.kafka", "kafka_2.13", "4.1.1"),
    Coordinate("org.slf4j", "slf4j-simple", "1.7.36"),  # without a binding the broker logs nothing
)
JVM_OPTIONS = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
BROKER_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Records that are as old as their event time says would be deleted while they are read.
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "broker.heartbeat.interval.ms": "250",
}
SOON_BACK = {"broker.session.timeout.ms": "2000"}
"""For a broker that is killed: until its old session has run out the controller refuses the new one.

Where all cores are busy that is too short to be the rule: a broker that is late with a heartbeat loses its partitions.
"""
METADATA_KEY, METADATA_VERSION = 3, 1


class KafkaService(Service):
    """One broker on a free loopback port; `settings` are added to its `server.properties`.

    Raises:
        ConfigError: `settings` has a key that decides where the broker lives.
    """

    name = "kafka"

    def __init__(
        self, *, port: int = 0, settings: Mapping[str, str] | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__(port=port, clock=clock)
        self._settings = dict(settings or {})
        if taken := sorted(_identity(Path(), 0, 0).keys() & self._settings.keys()):
            raise ConfigError(f"broker setting {taken[0]!r} is set by the kafka service; leave it out")
        self._controller_port: Port | None = None

    @property
    def address(self) -> str:
        """What `bootstrap.servers` wants."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def usage(self) -> str:
        """A message sent and read back with confluent-kafka."""
        return (
            "from confluent_kafka import Consumer, Producer\n"
            f'producer = Producer({{"bootstrap.servers": "{self.address}"}})\n'
            'producer.produce("greetings", b"hello")\n'
            "producer.flush()\n"
            f'consumer = Consumer({{"bootstrap.servers": "{self.address}", "group.id": "me",\n'
            '                     "auto.offset.reset": "earliest"})\n'
            'consumer.subscribe(["greetings"])\n'
            "print(consumer.poll(10).value())\n"
        )

    def new_topic(self, partitions: int = 1, prefix: str = "topic") -> str:
        """Create a topic with a name of its own and wait until every partition has a leader.

        Raises:
            MissingExtraError: confluent-kafka is not installed.
            UnavailableError: the broker does not create it.
        """
        try:
            from tidegate.testing.services._client import create_topic
        except ImportError as error:
            raise MissingExtraError(
                "kafka support is not installed; run: pip install 'tidegate[kafka]'"
            ) from error
        topic = f"{prefix}-{new_id(8)}"
        create_topic(self.address, topic, partitions, self._clock)
        return topic

    def stop(self) -> None:
        """End the broker and remove its data; harmless when already stopped."""
        super().stop()
        if self._controller_port is not None:
            self._controller_port.release()
            self._controller_port = None

    def _check(self) -> None:
        self._java = find_java()
        self._classpath = fetch_jars(KAFKA_JARS) / "*"

    def _prepare(self) -> None:
        self._controller_port = Port()
        settings = {**BROKER_SETTINGS, **self._settings}
        settings |= _identity(self.directory, self.port, self._controller_port.number)
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        # The first byte is 0 because an id that begins with "-" would read as an option.
        cluster = base64.urlsafe_b64encode(bytes.fromhex("00" + new_id(30))).decode().rstrip("=")
        self._complete(
            self._jvm("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))
        )

    def _command(self) -> Sequence[str]:
        return self._jvm("kafka.Kafka", str(self._properties))

    def _answers(self) -> bool:
        """Whether the broker names itself in its metadata: then it is registered and takes requests."""
        request = struct.pack(">hhihi", METADATA_KEY, METADATA_VERSION, 0, -1, 0)
        try:
            with closing(socket.create_connection((LOOPBACK, self.port), timeout=1)) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                answer = connection.recv(12, socket.MSG_WAITALL)  # size, correlation id, number of brokers
        except OSError:
            return False
        return len(answer) == 12 and struct.unpack(">iii", answer)[2] > 0

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _jvm(self, main: str, *arguments: str) -> list[str]:
        return [str(self._java), *JVM_OPTIONS, "-cp", str(self._classpath), main, *arguments]


def _identity(directory: Path, port: int, controller_port: int) -> dict[str, str]:
    """The settings that make it this broker and no other."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "data"),
    }
