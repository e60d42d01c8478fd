"""`tidegate audit` of topics on a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.waiting import PATIENCE_S, until
from tidegate.clock import new_id
from tidegate.connectors.kafka import (
    JsonValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidegate.connectors.kafka._client import Cluster
from tidegate.connectors.kafka.split import PartitionId
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import ConfigError
from tidegate.runtime.cli.main import main
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

Told = Callable[..., tuple[int, dict[str, Any]]]


def produce(kafka: KafkaService, topic: str, numbers: Iterable[int], **settings: Any) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0, **settings})
    if settings:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, json.dumps({"id": number}), partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def committed_in(kafka: KafkaService, topic: str) -> int:
    """How many offsets readers of committed records may pass."""
    ends = Cluster({"bootstrap.servers": kafka.address}).offsets(
        [PartitionId(topic, partition) for partition in range(3)], "latest"
    )
    return sum(ends.values())


@pytest.fixture
def told(kafka: KafkaService, capsys: pytest.CaptureFixture[str]) -> Told:
    def audit(given: str, found: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        sides = [
            f"kafka://{kafka.address}/{side}{'&' if '?' in side else '?'}format=json"
            for side in (given, found)
        ]
        code = main(["audit", *sides, "--json", *arguments])
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, answer

    return audit


@pytest.fixture
def copied(kafka: KafkaService, tmp_path: Path) -> tuple[str, str]:
    """A topic with 300 records, and one that a pipeline copies it to, which was stopped behind the last of them."""
    given, found = kafka.new_topic(3), kafka.new_topic(3)
    produce(kafka, given, range(300))
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "parallelism.default": "2",
            "state.checkpoints.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "100 ms",
            "pipeline.progress": "off",
        }
    )
    source = KafkaSource(kafka.address, (given,), deserializer=JsonValues())
    env.from_source(source).sink_to(KafkaSink(kafka.address, KafkaRecordSerializationSchema(found)))
    client = env.execute_async("copied")
    until(lambda: committed_in(kafka, found) >= 300, job=client)
    client.stop().result(PATIENCE_S)
    return given, found


def test_what_a_pipeline_copied_is_proven_and_what_is_wrong_is_named(
    kafka: KafkaService, told: Told, copied: tuple[str, str]
) -> None:
    given, found = copied
    code, proof = told(given, found)
    assert (code, proof["proven"], proof["expected"], proof["output"]["hidden"]) == (0, True, 300, [])
    assert proof["output"]["records"] == 300

    produce(kafka, given, [300, 301])
    produce(kafka, found, [7, 1_000])
    aborted = produce(kafka, found, [8], **{"transactional.id": f"aborted-{new_id(4)}"})
    aborted.abort_transaction(PATIENCE_S)
    code, proof = told(given, found)

    assert code == 1
    assert {kind: proof[kind] for kind in ("missing", "duplicate", "unexpected")} == {
        "missing": 2,
        "duplicate": 1,
        "unexpected": 1,
    }
    findings = {(each["kind"], each["record"]): each["places"] for each in proof["findings"]}
    assert findings["missing", '{"id":300}'] == [f"{given}:0 offset 100"]
    assert findings["missing", '{"id":301}'] == [f"{given}:1 offset 100"]
    twice = findings["duplicate", '{"id":7}']
    assert len(twice) == 2
    assert all(place.startswith(f"{found}:") for place in twice)
    (unexpected,) = findings["unexpected", '{"id":1000}']
    assert unexpected.startswith(f"{found}:1 offset ")


def test_what_came_behind_a_checkpoint_is_not_missed(
    kafka: KafkaService, told: Told, copied: tuple[str, str], tmp_path: Path
) -> None:
    given, found = copied
    produce(kafka, given, range(300, 330))
    at = ("--checkpoint", "copied", "--root", str(tmp_path / "state"))

    code, proof = told(given, found, *at)
    assert (code, proof["expected"], proof["checkpoint"] > 0) == (0, 300, True)
    assert sorted(part["offset"] for part in proof["input"]["parts"]) == [[0, 100]] * 3

    produce(kafka, found, [310])
    assert told(given, found, *at)[0] == 0, "the pipeline may be further than the checkpoint"
    produce(kafka, found, [310])
    code, proof = told(given, found, *at)
    assert (code, proof["duplicate"], proof["missing"]) == (1, 1, 0)


def test_ranges_of_offsets_are_compared_alone(kafka: KafkaService, told: Told) -> None:
    given, found = kafka.new_topic(3), kafka.new_topic(3)
    produce(kafka, given, range(30))
    produce(kafka, found, range(6, 24))

    code, proof = told(f"{given}?offsets=0:2-8,1:2-8,2:2-8", found)

    assert (code, proof["expected"]) == (0, 18)
    assert [part["offset"] for part in proof["input"]["parts"]] == [[2, 8]] * 3


def test_an_open_transaction_is_named_and_what_is_in_it_missed(kafka: KafkaService, told: Told) -> None:
    given, found = kafka.new_topic(3), kafka.new_topic(3)
    produce(kafka, given, range(9))
    produce(kafka, found, range(6))
    name = f"open-{new_id(4)}"
    opened = produce(kafka, found, [6, 7], **{"transactional.id": name})

    code, proof = told(given, found)

    assert (code, proof["missing"]) == (1, 3)
    assert proof["output"]["hidden"] == [f"transaction {name!r} is open on {found}:0, {found}:1"]

    opened.commit_transaction(PATIENCE_S)
    code, proof = told(given, found)
    assert (code, proof["missing"], proof["output"]["hidden"]) == (1, 1, [])


def test_a_source_without_a_stop_has_no_extent(kafka: KafkaService) -> None:
    with pytest.raises(
        ConfigError, match=r"^a kafka source without a stop is unbounded; expected a bounded one$"
    ):
        KafkaSource(kafka.address, ("orders",), start=KafkaOffsetsInitializer.earliest()).extent()
