"""A job between two topics of Kafka, with what an audit and its tests have to know of the broker."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaAdminClient

from tests.crash.conftest import COUNT, Job
from tests.waiting import until
from tidegate.testing.services import KafkaService
from tidegate.twophase.spi import Committable

PROGRAM = Path(__file__).parent / "programs" / "kafka_totals.py"
PARTITIONS = 3
RATE = 2_000.0
UNREADABLE = 10
"""After how many payments there is one message that is none."""


@dataclass
class KafkaJob(Job):
    """The running totals between two topics."""

    brokers: str = ""
    target: str = ""
    dead: str = ""

    def written(self) -> Counter[str]:
        """Every committed record of the output."""
        return self.committed(self.target)

    def committed(self, topic: str) -> Counter[str]:
        """Every committed record of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.brokers,
                "group.id": topic,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        lines: Counter[str] = Counter()
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends += 1
            else:
                lines[message.value().decode()] += 1
        consumer.close()
        return lines

    def appended(self) -> int:
        """How many records the output has, whether committed or not."""
        asked = {TopicPartition(self.target, number): OffsetSpec.latest() for number in range(PARTITIONS)}

        def ends() -> list[int]:
            client = AdminClient({"bootstrap.servers": self.brokers, "log_level": 0})
            found = client.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
            try:
                return [int(future.result(30).offset) for future in found.values()]
            except KafkaException as error:
                # A broker that has just begun again tells of its leaders before its partitions know of it.
                if error.args[0].code() not in (
                    KafkaError.UNKNOWN_LEADER_EPOCH,
                    KafkaError.FENCED_LEADER_EPOCH,
                ):
                    raise
            return []

        return sum(until(ends))

    def unsettled(self) -> list[Committable]:
        """What the newest decided checkpoint has yet to make visible."""
        manifest = self.newest()
        return [] if manifest is None else [work for each in manifest.unsettled for work in each.committables]

    def left_open(self) -> list[str]:
        """Transactions of the sink that still hold readers up."""
        return self._ids(["Ongoing"])

    def ids(self) -> list[str]:
        """Transactional ids that the sink has used."""
        return self._ids(None)

    def _ids(self, states: list[str] | None) -> list[str]:
        with KafkaAdminClient(bootstrap_servers=self.brokers) as client:
            listed = client.list_transactions(state_filters=states)
        return [
            row.transactional_id
            for rows in listed.values()
            for row in rows
            if escaped(self.target) in row.transactional_id
        ]


def escaped(name: str) -> str:
    return name.replace("-", "%2D")


def paid(kafka: KafkaService) -> str:
    """A topic of payments, those of an account in one partition and in order."""
    topic = kafka.new_topic(PARTITIONS, "payments")
    producer = Producer({"bootstrap.servers": kafka.address})
    for number in range(COUNT):
        account = f"account-{number * 7919 % 97}"
        payment = {"id": number, "account": account, "amount": number % 13}
        producer.produce(topic, json.dumps(payment), account)
        if number % UNREADABLE == 0:
            producer.produce(topic, f"no payment {number}", account)
    assert producer.flush(30) == 0
    return topic


def job_between(kafka: KafkaService, payments: str, directory: Path) -> KafkaJob:
    """A job from the payments to topics of its own."""
    target, dead = kafka.new_topic(PARTITIONS, "totals"), kafka.new_topic(PARTITIONS, "dead")
    return KafkaJob(
        directory,
        program=PROGRAM,
        arguments=(kafka.address, f"{payments},{dead},{target}"),
        rate=RATE,
        brokers=kafka.address,
        target=target,
        dead=dead,
    )


def assert_exactly_once(job: KafkaJob) -> None:
    assert job.audit() == []
    assert job.committed(job.dead) == {f"no payment {number}": 1 for number in range(0, COUNT, UNREADABLE)}
    assert job.left_open() == [], job.left_open()


@pytest.fixture(scope="module")
def payments(kafka: KafkaService) -> str:
    return paid(kafka)


@pytest.fixture
def between_topics(kafka: KafkaService, payments: str, tmp_path: Path) -> KafkaJob:
    return job_between(kafka, payments, tmp_path)
