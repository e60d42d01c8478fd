"""Every source that can be audited passes the kit that authors get."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import (
    AvroFormat,
    CsvFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    RecordFileSource,
    TextFormat,
)
from tidegate.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, StringValues
from tidegate.testing.audited import AuditedSourceSuite
from tidegate.testing.services import KafkaService
from tidegate.testing.source import SourceTarget


class TestTextFiles(AuditedSourceSuite):
    """Lines, in parts that cut them."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        (tmp_path / "a").write_bytes(b"one\r\ntwo\n\nfour, with a long text\nend")
        (tmp_path / "b").write_bytes(b"only\n")
        expected = ["one", "two", "", "four, with a long text", "end", "only"]
        return SourceTarget(RecordFileSource(str(tmp_path), TextFormat(), part_bytes=7), expected)


class TestPackedLines(AuditedSourceSuite):
    """CSV and its names, plain and compressed."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        (tmp_path / "a.csv").write_text("id\n1\n2\n3\n")
        (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id\n4\n5\n"))
        source = RecordFileSource(str(tmp_path), CsvFormat(types={"id": int}), part_bytes=3)
        return SourceTarget(source, [{"id": number} for number in range(1, 6)])


class TestParquet(AuditedSourceSuite):
    """Some rows of Parquet, in parts of a row group."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        rows = [{"id": number} for number in range(20)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=4)
        source = RecordFileSource(str(tmp_path), ParquetFormat(where=[("id", ">", 5)]), part_bytes=1)
        return SourceTarget(source, rows[6:])


class TestAvro(AuditedSourceSuite):
    """Records of Avro, in parts of a few blocks."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        rows = [{"id": number} for number in range(20)]
        schema = {"type": "record", "name": "One", "fields": [{"name": "id", "type": "long"}]}
        with (tmp_path / "a.avro").open("wb") as file:
            fastavro.writer(file, schema, rows, sync_interval=4)
        return SourceTarget(RecordFileSource(str(tmp_path), AvroFormat(), part_bytes=1), rows)


class TestOrc(AuditedSourceSuite):
    """Rows of ORC."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        rows = [{"id": number} for number in range(10)]
        orc.write_table(pa.Table.from_pylist(rows), tmp_path / "a.orc")
        return SourceTarget(RecordFileSource(str(tmp_path), OrcFormat()), rows)


class TestWatchedFiles(AuditedSourceSuite):
    """A directory that is looked at again and again."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> SourceTarget:
        for number in range(4):
            (tmp_path / f"{number}.jsonl").write_text(f"{number}\n{number + 10}\n")
        source = RecordFileSource(str(tmp_path), JsonFormat(), part_bytes=2, watch_ms=1_000)
        return SourceTarget(source, [*range(4), *range(10, 14)], patience=8)


@pytest.mark.service
class TestKafka(AuditedSourceSuite):
    """A bounded topic of two partitions."""

    @pytest.fixture
    def target(self, kafka: KafkaService) -> SourceTarget:
        values = [f"record {number}" for number in range(5)]
        topic = kafka.new_topic(2)
        producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2)
        producer.flush()
        stop = KafkaOffsetsInitializer.latest()
        source = KafkaSource(kafka.address, (topic,), deserializer=StringValues(), stop=stop)
        return SourceTarget(source, values, patience=400, clock=SYSTEM_CLOCK)


FAULTS = {
    "TestForgetsTheRest": "test_a_checkpoint_divides_what_was_read_from_what_was_not",
    "TestReadsOn": "test_an_extent_holds_every_record_once",
    "TestNamesTheWrongRecord": "test_a_record_is_read_again_by_its_position",
}
"""The clause that must find each fault of `broken_audits.py`."""


def test_the_kit_finds_every_fault(broken_clauses: Callable[[Path, dict[str, str]], set[str]]) -> None:
    found = broken_clauses(Path(__file__).with_name("broken_audits.py"), FAULTS)

    assert found == {f"{name}::{clause}" for name, clause in FAULTS.items()}
