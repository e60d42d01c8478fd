"""Page views counted from a topic: what checkpoint 100 holds, and what is read again after a kill, on a real broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import msgspec
import pytest
from confluent_kafka import Producer

from tests.unit.runtime.stream import test_recovery_examples as examples
from tests.unit.runtime.stream.test_recovery_examples import (
    FATAL,
    LOGS,
    MESSAGES,
    Views,
    number_from,
    views,
    without_failure,
    written,
)
from tests.waiting import PATIENCE_S, until
from tidegate.connectors.files import FileSink
from tidegate.connectors.kafka import KafkaSource, StringValues
from tidegate.connectors.kafka.split import KafkaSplit
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.runtime.checkpoint.savepoint import open_snapshot
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service


@pytest.fixture(autouse=True)
def carried_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules."""
    for module in (request.module, examples):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (request.module, examples):
        cloudpickle.unregister_pickle_by_value(module)


class Noting(MapFunction):
    """Notes the messages that a test waits for and the first one of each attempt; ends its process at one, once."""

    def __init__(self, directory: Path, kill: bool) -> None:
        self.directory, self.kill = directory, kill

    def open(self, runtime_context: object) -> None:
        self.first = True

    def map(self, value: str) -> str:
        if self.first:
            self.first = False
            with (self.directory / "begun").open("a") as begun:
                begun.write(f"{value}\n")
        if int(value) == FATAL and not (self.directory / "failed").exists():
            (self.directory / "failed").touch()
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("this once")
        if int(value) in (999, MESSAGES - 1):
            (self.directory / f"at-{value}").touch()
        return value


def produce(kafka: KafkaService, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number in numbers:
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def offsets(place: Path) -> list[tuple[int, int]]:
    (source,) = [operator for operator in open_snapshot(place).manifest.operators if operator.splits]
    splits = [msgspec.msgpack.decode(split, type=KafkaSplit) for split in source.splits]
    return [(split.partition, split.at) for split in splits]


@pytest.mark.spec("004/AX-019", "004/AX-020")
@pytest.mark.parametrize("target", ["inline", pytest.param("embedded", marks=pytest.mark.processes)])
def test_checkpoint_100_holds_offset_1000_and_a_killed_job_reads_the_topic_from_there(
    kafka: KafkaService, tmp_path: Path, target: str
) -> None:
    topic = kafka.new_topic(1, "test")
    number_from(tmp_path / "state", 100)
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": 2,
            "pipeline.progress": "off",
            "execution.checkpointing.interval": "1 h",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1,
            "restart-strategy.fixed-delay.delay": "1 ms",
            "state.checkpoints.dir": str(tmp_path / "state"),
            "state.savepoints.dir": str(tmp_path / "savepoints"),
        }
    )
    source = KafkaSource(kafka.address, (topic,), deserializer=StringValues())
    messages = env.from_source(source).uid("topic").set_parallelism(1)
    noted = messages.map(Noting(tmp_path, target == "embedded")).set_parallelism(1)
    counted = noted.flat_map(lambda message: LOGS).key_by(lambda app: app).process(Views()).uid("pv")
    counted.sink_to(FileSink(str(tmp_path / "out"))).uid("files")

    produce(kafka, topic, range(1_000))
    client = env.execute_async("views")
    until((tmp_path / "at-999").exists, job=client)
    client.trigger_savepoint().result(timeout=PATIENCE_S)
    (kept,) = (tmp_path / "state").glob("*/chk-100")
    assert offsets(kept) == [(0, 1_000)]
    assert views(kept) == {"app1": 50_000, "app2": 10_000}

    produce(kafka, topic, range(1_000, MESSAGES))
    until((tmp_path / f"at-{MESSAGES - 1}").exists, job=client)
    last = client.stop_with_savepoint(False).result(timeout=PATIENCE_S)
    assert (tmp_path / "failed").exists()
    assert (tmp_path / "begun").read_text().split() == ["0", "1000"], "message 1,001 is the next one"
    assert views(last) == {"app1": 75_000, "app2": 15_000}
    assert sorted(written(tmp_path / "out")) == sorted(without_failure())
