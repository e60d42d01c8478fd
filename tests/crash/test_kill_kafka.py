"""`kill -9` at every step of a checkpoint of a job from Kafka to Kafka, on a real broker.

What is read with `read_committed` afterwards is every record once, and every dead letter once, and no transaction is left
open: one would hold up all other readers of the topic.
"""

from __future__ import annotations

import shutil

import pytest

from tests.crash.kafka_job import (
    KafkaJob,
    assert_exactly_once,
    between_topics as between_topics,
    payments as payments,
)

pytestmark = [pytest.mark.crash, pytest.mark.service]

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
ONLY_THE_LAST = {"execution__checkpointing__interval": "3 min"}
"""The checkpoint at the end of the input, here the only one, has work of both subtasks however slow the start was."""
QUICK = 2
"""How many of each are tried unless there is time; the rest is for long runs."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    points = {"of_worker": OF_WORKERS, "of_coordinator": OF_COORDINATOR}
    long = metafunc.config.getoption("--profile") == "long"
    for name in points.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, points[name] if long else points[name][:QUICK])


@pytest.mark.spec("004/EOS-001")
def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(
    between_topics: KafkaJob, of_worker: str
) -> None:
    done = between_topics.run_into(of_worker)

    assert done.returncode == 0, done.stderr
    assert between_topics.reached(of_worker), f"{of_worker} was never passed"
    assert "killed by SIGKILL" in done.stderr
    assert_exactly_once(between_topics)


@pytest.mark.spec("004/EOS-001")
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
