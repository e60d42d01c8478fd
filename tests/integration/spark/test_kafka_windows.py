"""From Kafka through windows to Kafka on Spark: invisible until the checkpoint is complete, there once whatever dies then."""

from __future__ import annotations

import json
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.conformance.test_kafka import read_committed
from tests.integration.connectors.test_kafka_to_kafka import appended
from tests.integration.spark.conftest import PROGRAM, Job
from tests.integration.spark.topics import left_open
from tidegate.clock import SYSTEM_CLOCK
from tidegate.testing.services import KafkaService

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.crash]

WINDOWS = PROGRAM.with_name("windows.py")
USERS, SECONDS, PER_SECOND = ("ada", "bob"), 3, 4
COUNTED = sorted(f"{user} {PER_SECOND}" for user in USERS for _ in range(SECONDS))


@dataclass
class WindowsJob(Job):
    """The program between two topics, each of one partition."""

    topics: tuple[str, ...] = ()

    def _program(self, settings: str) -> list[str]:
        return [str(WINDOWS), *self.topics, settings]

    def go_on(self) -> Any:
        """Run in this process."""
        return runpy.run_path(str(WINDOWS))["run"](*self.topics, self._settings("local[2]"))


@pytest.fixture
def windows(kafka: KafkaService, tmp_path: Path) -> WindowsJob:
    orders = kafka.new_topic(1, "orders")
    # The broker removes what is older than a week, and counts have the time of their window.
    start_ms = SYSTEM_CLOCK.now_ms() // 1_000 * 1_000
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number in range(SECONDS * PER_SECOND):
        for user in USERS:
            producer.produce(
                orders, json.dumps({"user": user, "at": start_ms + number * 1_000 // PER_SECOND})
            )
    assert producer.flush(60) == 0
    return WindowsJob(tmp_path, topics=(kafka.address, orders, kafka.new_topic(1, "counts")))


@pytest.mark.spec("004/AX-024")
@pytest.mark.usefixtures("spark")
def test_windows_on_spark_are_seen_once_the_checkpoint_is_complete_and_once_after_a_death_before_the_commit(
    windows: WindowsJob, kafka: KafkaService
) -> None:
    *_, counts = windows.topics
    windows.kill_at("checkpoint.before-swap@1")
    assert appended(kafka, counts) == len(COUNTED), "all of it is prepared"
    assert left_open(kafka.address, "counted") != []
    assert read_committed(kafka, counts, 1) == [], "and nothing is complete"

    windows.kill_at("commit.before@1")
    assert appended(kafka, counts) >= 2 * len(COUNTED), "written again"
    assert read_committed(kafka, counts, 1) == [], "complete, and not committed"

    result = windows.go_on()
    assert result.resumed_from == 2
    assert sorted(read_committed(kafka, counts, 1)) == COUNTED
    assert left_open(kafka.address, "counted") == []
