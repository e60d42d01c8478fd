"""Changes of rows through a real broker, in the formats of other systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.waiting import PATIENCE_S
from tidegate.cdc.formats import CanalJson, ChangelogJson, DebeziumJson, MaxwellJson
from tidegate.cdc.formats.envelope import JsonChangeFormat
from tidegate.common import WatermarkStrategy
from tidegate.connectors.kafka import (
    ChangeValues,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import RowKind
from tidegate.row import Row
from tidegate.testing.services import KafkaService
from tidegate.types import Types

pytestmark = pytest.mark.service

USERS = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
CHANGES = [
    (RowKind.INSERT, 1, "ada"),
    (RowKind.UPDATE_BEFORE, 1, "ada"),
    (RowKind.UPDATE_AFTER, 1, "eve"),
    (RowKind.DELETE, 1, "eve"),
]


def environment(tmp_path: Path) -> StreamExecutionEnvironment:
    settings = {
        "execution.target": "embedded",
        "parallelism.default": 2,
        "pipeline.progress": "off",
        "state.checkpoints.dir": f"file://{tmp_path}",
    }
    return StreamExecutionEnvironment.get_execution_environment(settings)


def read(
    kafka: KafkaService, topic: str, format: JsonChangeFormat, tmp_path: Path
) -> list[tuple[str, int, str]]:
    source = KafkaSource(
        kafka.address,
        topics=(topic,),
        deserializer=ChangeValues(format),
        stop=KafkaOffsetsInitializer.latest(),
    )
    stream = environment(tmp_path).from_source(source, WatermarkStrategy.no_watermarks(), "changes")
    return [(str(row.get_row_kind()), row["id"], row["name"]) for row in stream.execute_and_collect()]


@pytest.mark.spec("003/TC-11", "003/TC-12", "004/CDC-004")
@pytest.mark.parametrize(
    "format",
    [DebeziumJson(USERS), CanalJson(USERS), MaxwellJson(USERS), ChangelogJson(USERS)],
    ids=lambda format: format.name,
)
def test_changes_go_through_a_topic(kafka: KafkaService, tmp_path: Path, format: JsonChangeFormat) -> None:
    topic = kafka.new_topic(1)
    env = environment(tmp_path / "write")
    env.set_parallelism(1)
    schema = KafkaRecordSerializationSchema(topic, format)
    rows = [Row.of_kind(kind, id=id, name=name) for kind, id, name in CHANGES]
    env.from_collection(rows).sink_to(KafkaSink(kafka.address, schema))
    env.execute("write-changes")
    found = read(kafka, topic, format, tmp_path / "read")
    if isinstance(format, ChangelogJson):
        assert found == [(str(kind), id, name) for kind, id, name in CHANGES]
    else:
        assert found == [("+I", 1, "ada"), ("-D", 1, "ada"), ("+I", 1, "eve"), ("-D", 1, "eve")]


@pytest.mark.spec("004/AX-050")
def test_an_update_of_debezium_is_two_rows_of_one_message(kafka: KafkaService, tmp_path: Path) -> None:
    topic = kafka.new_topic(1)
    producer = Producer({"bootstrap.servers": kafka.address})
    ada, eve = {"id": 1, "name": "ada"}, {"id": 1, "name": "eve"}
    for envelope in (
        {"op": "r", "before": None, "after": ada},
        {"op": "u", "before": ada, "after": eve},
        {"op": "d", "before": eve, "after": None},
    ):
        producer.produce(topic, json.dumps(envelope))
    producer.produce(topic, None, "1")  # a tombstone
    assert producer.flush(PATIENCE_S) == 0
    assert read(kafka, topic, DebeziumJson(USERS), tmp_path) == [
        ("+I", 1, "ada"),
        ("-U", 1, "ada"),
        ("+U", 1, "eve"),
        ("-D", 1, "eve"),
    ]
