"""`kill -9` at every step of a checkpoint of a job from Kafka to Kafka, on a real broker.

What is read with `read_committed` afterwards is every record once, and every dead letter once, and no transaction is left
open: one would hold up all other readers of the topic.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaAdminClient

from tests.crash.conftest import COUNT, Job
from tidegate.testing.services import KafkaService

pytestmark = [pytest.mark.crash, pytest.mark.service]

PROGRAM = Path(__file__).parent / "programs" / "kafka_totals.py"
PARTITIONS = 3
RATE = 2_000.0
UNREADABLE = 10
"""After how many payments there is one message that is none."""

OF_WORKERS = [
    "taskmanager-1/sink.after-flush@3",
    "taskmanager-0/commit.after@3",
    "taskmanager-1/sink.before-flush@3",
    "taskmanager-1/sink.after-prepare@3",
    "taskmanager-1/task.before-ack@3",
    "taskmanager-0/commit.before@3",
]
OF_COORDINATOR = [
    "checkpoint.after-metadata",
    "checkpoint.before-settled",
    "checkpoint.before-swap",
    "checkpoint.after-swap",
    "checkpoint.after-settled",
]
ONLY_THE_LAST = {"execution__checkpointing__interval": "10 min"}
"""The checkpoint at the end of the input, here the only one, has work of both subtasks however slow the start was."""
QUICK = 2
"""How many of each are tried unless there is time; the rest is for long runs."""


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

    def left_open(self) -> list[str]:
        """Transactions of the sink that still hold readers up."""
        with KafkaAdminClient(bootstrap_servers=self.brokers) as client:
            listed = client.list_transactions(state_filters=["Ongoing"])
        return [
            row.transactional_id
            for rows in listed.values()
            for row in rows
            if escaped(self.target) in row.transactional_id
        ]


def escaped(name: str) -> str:
    return name.replace("-", "%2D")


@pytest.fixture(scope="module")
def payments(kafka: KafkaService) -> str:
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


@pytest.fixture
def between_topics(kafka: KafkaService, payments: str, tmp_path: Path) -> KafkaJob:
    target, dead = kafka.new_topic(PARTITIONS, "totals"), kafka.new_topic(PARTITIONS, "dead")
    return KafkaJob(
        tmp_path,
        program=PROGRAM,
        arguments=(kafka.address, f"{payments},{target},{dead}"),
        rate=RATE,
        brokers=kafka.address,
        target=target,
        dead=dead,
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    points = {"of_worker": OF_WORKERS, "of_coordinator": OF_COORDINATOR}
    long = metafunc.config.getoption("--profile") == "long"
    for name in points.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, points[name] if long else points[name][:QUICK])


def assert_exactly_once(job: KafkaJob) -> None:
    assert job.audit() == []
    assert job.committed(job.dead) == {f"no payment {number}": 1 for number in range(0, COUNT, UNREADABLE)}
    assert job.left_open() == []


def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(
    between_topics: KafkaJob, of_worker: str
) -> None:
    done = between_topics.run_into(of_worker)

    assert done.returncode == 0, done.stderr
    assert between_topics.reached(of_worker), f"{of_worker} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert_exactly_once(between_topics)


def test_a_killed_coordinator_is_followed_by_a_start_that_loses_and_doubles_nothing(
    between_topics: KafkaJob, of_coordinator: str
) -> None:
    between_topics.kill_at(of_coordinator, **ONLY_THE_LAST)
    between_topics.result()
    assert_exactly_once(between_topics)


def test_a_start_killed_between_two_commits_of_what_it_found_is_followed_by_another(
    between_topics: KafkaJob,
) -> None:
    between_topics.kill_at("checkpoint.after-swap", **ONLY_THE_LAST)
    shutil.rmtree(between_topics.witnesses)
    between_topics.kill_at("commit.between", **ONLY_THE_LAST)
    between_topics.result()
    assert_exactly_once(between_topics)
