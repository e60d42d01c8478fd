"""Topics as a stream of Spark on a real broker, as Spark asks for it, with Spark left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructType, TimestampType

from tidegate.runtime.spark.datasource.stream import StreamReader
from tidegate.testing.services import KafkaService

pytestmark = pytest.mark.service

HEADER = StructType().add("key", StringType()).add("value", StringType())
COLUMNS = StructType().add("key", StringType()).add("value", StringType()).add("topic", StringType())
COLUMNS = COLUMNS.add("partition", IntegerType()).add("offset", LongType()).add("timestamp", TimestampType())
COLUMNS = COLUMNS.add("headers", ArrayType(HEADER))


@pytest.fixture
def topic(kafka: KafkaService) -> str:
    return kafka.new_topic(partitions=2)


def written(kafka: KafkaService, topic: str, numbers: range, *, aborted: bool = False) -> None:
    """One transaction, whose end takes an offset of each partition too."""
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, str(number), partition=number % 2)
    producer.flush()
    if aborted:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


def stream(kafka: KafkaService, topic: str, **options: str) -> StreamReader:
    told = {"connector": "kafka", "kafka.bootstrap.servers": kafka.address, "subscribe": topic, **options}
    return StreamReader(told, COLUMNS)


def batches(reader: StreamReader, start: dict[str, Any]) -> tuple[list[list[int]], dict[str, Any]]:
    found = list[list[int]]()
    while (end := json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))) != start:
        found.append(values(reader, start, end))
        start = end
    return found, start


def values(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = reader.partitions(start, end)
    return sorted(
        int(value) for part in parts for batch in reader.read(part) for value in batch.column(1).to_pylist()
    )


def test_transactions_leave_gaps_and_a_batch_ends_in_one(kafka: KafkaService, topic: str) -> None:
    written(kafka, topic, range(10))
    written(kafka, topic, range(100, 106), aborted=True)
    written(kafka, topic, range(10, 14))
    reader = stream(kafka, topic, maxRecordsPerTrigger="6")
    found, at = batches(reader, reader.initialOffset())

    assert sorted(value for batch in found for value in batch) == list(range(14))
    assert all(len(batch) <= 6 for batch in found)
    written(kafka, topic, range(14, 16))
    assert batches(stream(kafka, topic), at)[0] == [[14, 15]]


def test_a_batch_is_the_same_when_it_is_run_again_after_more_has_come(
    kafka: KafkaService, topic: str
) -> None:
    written(kafka, topic, range(8))
    first = stream(kafka, topic, maxRecordsPerTrigger="4")
    start = first.initialOffset()
    end = first.latestOffset(start, first.getDefaultReadLimit())
    before = values(first, start, end)
    written(kafka, topic, range(8, 20))

    assert values(stream(kafka, topic), start, end) == before


def test_available_now_ends_where_the_topic_ended(kafka: KafkaService, topic: str) -> None:
    written(kafka, topic, range(6))
    reader = stream(kafka, topic, maxRecordsPerTrigger="4")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    first = values(reader, start, end)
    written(kafka, topic, range(6, 10))
    rest, _ = batches(reader, end)

    assert sorted([*first, *(value for batch in rest for value in batch)]) == list(range(6))


def test_a_stream_that_begins_at_the_end_reads_what_comes_after_it_looked(
    kafka: KafkaService, topic: str
) -> None:
    written(kafka, topic, range(6))
    reader = stream(kafka, topic, startingOffsets="latest")
    empty, at = batches(reader, reader.initialOffset())
    written(kafka, topic, range(6, 9))

    assert empty == [[]]
    assert batches(stream(kafka, topic), at)[0] == [[6, 7, 8]]
