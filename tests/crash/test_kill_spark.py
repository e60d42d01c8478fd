"""`kill -9` at every step of an epoch of a job from Kafka to Kafka that runs on Spark, on a real broker.

The driver commits over the wire; tasks that prepared the transactions are gone by then. Long runs have a standalone cluster
with two workers, others a local master.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.conftest import Job
from tests.crash.kafka_job import KafkaJob, assert_exactly_once
from tests.crash.test_kill_kafka import between_topics as between_topics, payments as payments
from tests.crash.test_standby import owner_and_standby
from tidegate.testing.services import SparkService

pytestmark = [pytest.mark.crash, pytest.mark.service, pytest.mark.spark]

OF_TASKS = [
    "taskmanager-1/sink.after-prepare@1",
    "taskmanager-0/sink.after-flush@1",
    "taskmanager-1/sink.before-flush@1",
    "taskmanager-1/task.before-ack@1",
]
OF_DRIVER = [
    "commit.between@1",
    "checkpoint.before-metadata@2",
    "checkpoint.after-metadata@2",
    "checkpoint.before-swap@2",
    "checkpoint.after-swap@2",
    "commit.after@1",
    "checkpoint.before-settled@2",
    "checkpoint.after-settled@2",
]
QUICK = 1
"""How many of each are tried unless there is time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    points = {"of_task": OF_TASKS, "of_driver": OF_DRIVER}
    long = metafunc.config.getoption("--profile") == "long"
    for name in points.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, points[name] if long else points[name][:QUICK])


@pytest.fixture(scope="module")
def master(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.config.getoption("--profile") != "long":
        yield "local[2]"
        return
    with SparkService(workers=2) as cluster:
        yield cluster.address


@pytest.fixture
def on_spark(between_topics: KafkaJob, master: str) -> KafkaJob:
    between_topics.settings |= {"execution.target": master, "execution.spark.epoch-records": 500}
    between_topics.patience_s = 300
    return between_topics


def indexes(job: KafkaJob) -> set[int]:
    """The numbers of the transactional ids that were used."""
    return {int(name.rpartition("-")[2]) for name in job.ids()}


@pytest.mark.long
def test_a_killed_task_is_repeated_and_nothing_is_lost_or_doubled(on_spark: KafkaJob, of_task: str) -> None:
    done = on_spark.run_into(of_task)

    assert done.returncode == 0, done.stderr
    assert on_spark.reached(of_task), f"{of_task} was never passed"
    assert_exactly_once(on_spark)


def test_a_killed_driver_is_followed_by_one_that_loses_and_doubles_nothing(
    on_spark: KafkaJob, of_driver: str
) -> None:
    on_spark.kill_at(of_driver)
    assert on_spark.audit() != []
    on_spark.result()
    assert_exactly_once(on_spark)
    # Only the first epoch of either driver has names that were claimed.
    claimed = {number // 8 for number in indexes(on_spark) if number % 8}
    expected = {number // 8 for number in indexes(on_spark) if number % 8 == 0}
    assert len(claimed) <= 2 <= len(expected)


@pytest.mark.long
def test_a_driver_that_hangs_is_replaced_and_commits_nothing_when_it_wakes_up(job: Job) -> None:
    on_spark = {"execution.target": "local[2]", "execution.spark.epoch-records": 200}
    with owner_and_standby(job, **on_spark) as (owner, standby):
        owner.send_signal(signal.SIGSTOP)
        said, complaints = standby.communicate(timeout=120)
        assert standby.returncode == 0, complaints
        owner.send_signal(signal.SIGCONT)
        _, last_words = owner.communicate(timeout=120)

    assert job.audit() == []
    assert json.loads(said)["resumed_from"] is not None
    assert owner.returncode != 0
    assert "FencedError" in last_words


@pytest.mark.long
def test_the_demo_moves_from_one_executor_to_the_other_and_is_killed_there(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "tidegate.runtime.cli.main", "demo", "--spark"]
    done = subprocess.run(
        [*command, "--records", "30000", "--directory", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing lost, nothing twice: 30,000 records in" in done.stdout
    assert json.loads((tmp_path / "demo" / "report.json").read_text())["passed"]
