"""From Kafka through windows to Kafka: invisible until the checkpoint is complete, there once whatever fails then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.conformance.test_kafka import read_committed
from tests.waiting import PATIENCE_S, until
from tidegate.common import Duration, SimpleStringSchema, WatermarkStrategy
from tidegate.connectors.kafka import JsonValues, KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import TidegateError
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

WINDOWS, PER_WINDOW = 3, 4


@pytest.fixture(params=["inline-2", "embedded-2", "embedded-3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    """A program that fails once between a decision and its commit, and takes checkpoints when it is asked to."""
    target, _, parallelism = request.param.partition("-")
    return Env.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": parallelism,
            "state.checkpoints.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "3 min",
            "pipeline.progress": "off",
            "testing.faults": "commit.before!raise",
            "testing.faults-dir": str(tmp_path / "witnesses"),
        }
    )


@pytest.fixture(autouse=True)
def carried_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import this module."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def appended(kafka: KafkaService, topic: str) -> int:
    """How many records a topic of one partition has, committed or not."""
    client = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
    (found,) = client.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED).values()
    return int(found.result(PATIENCE_S).offset)


@pytest.mark.spec("004/AX-024", "004/EOS-014", "004/EOS-017", "004/EOS-018")
def test_windows_are_seen_once_the_checkpoint_is_complete_and_once_after_a_failure_before_the_commit(
    kafka: KafkaService, anywhere: Env, tmp_path: Path
) -> None:
    orders, totals = kafka.new_topic(1, "orders"), kafka.new_topic(1, "totals")
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number in range(WINDOWS * PER_WINDOW + 1):
        # The last one only closes the windows before it.
        producer.produce(orders, json.dumps({"user": "ada", "at": number * 1_000 // PER_WINDOW}))
    assert producer.flush(PATIENCE_S) == 0
    stamps = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda order, _: order["at"]
    )
    source = KafkaSource(kafka.address, (orders,), deserializer=JsonValues())
    ones = anywhere.from_source(source, stamps).set_parallelism(1).map(lambda order: (order["user"], 1))
    counts = ones.key_by(lambda one: one[0]).window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    summed = counts.reduce(lambda first, second: (first[0], first[1] + second[1]))
    schema = KafkaRecordSerializationSchema(totals, SimpleStringSchema())
    summed.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(KafkaSink(kafka.address, schema))
    client = anywhere.execute_async("counted")
    until(lambda: appended(kafka, totals), equals=WINDOWS, job=client)

    assert read_committed(kafka, totals, 1) == []

    with contextlib.suppress(TidegateError):
        client.trigger_savepoint(str(tmp_path / "savepoints")).result(PATIENCE_S)
    until(lambda: read_committed(kafka, totals, 1), equals=[f"ada {PER_WINDOW}"] * WINDOWS, job=client)
    client.cancel().result(PATIENCE_S)
    assert read_committed(kafka, totals, 1) == [f"ada {PER_WINDOW}"] * WINDOWS
    assert [path.name for path in (tmp_path / "witnesses").iterdir()] == ["0-commit.before"]
