"""Connectors as tables: options become sources and sinks, rows become records."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.connectors.files import FileSink, ParquetFormat, RecordFileSource
from tidegate.connectors.files.rows import FileRows
from tidegate.connectors.generator.rows import GeneratorRows
from tidegate.connectors.kafka import KafkaOffsetsInitializer
from tidegate.connectors.kafka.rows import KafkaRows
from tidegate.connectors.spi import RowSink, RowSource
from tidegate.errors import ConfigError, RecordError

BROKERS = {"kafka.bootstrap.servers": "localhost:9092"}


LARGEST = 1_000


def message(columns: list[str], row: dict[str, Any], **options: str) -> tuple[Any, ...]:
    """Topic, value, key, partition, headers."""
    return KafkaRows().sink({**BROKERS, **options}, "0", columns).schema.encoder(LARGEST)(row)


def test_connectors_say_what_they_can() -> None:
    assert isinstance(KafkaRows(), RowSource)
    assert isinstance(KafkaRows(), RowSink)
    assert isinstance(FileRows(), RowSink)
    assert isinstance(GeneratorRows(), RowSource)
    assert not isinstance(GeneratorRows(), RowSink)


def test_rows_become_messages_as_in_sparks_own_sink() -> None:
    assert message(["value"], {"value": "x"}, topic="out") == ("out", b"x", None, -1, None)
    keyed = {"key": b"k", "value": None}
    assert message(["key", "value"], keyed, topic="out") == ("out", None, b"k", -1, None)
    row = {"value": b"v", "topic": "else", "partition": None, "headers": [{"key": "h", "value": b"1"}]}
    assert message(list(row), row) == ("else", b"v", None, -1, [("h", b"1")])
    bare = {"value": "v", "headers": None, "partition": 3}
    assert message(list(bare), bare, topic="out") == ("out", b"v", None, 3, [])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            ["id", "value"],
            {"topic": "t"},
            r"^connector kafka needs a column value, .* got id, value; select to_json",
        ),
        (["key"], {"topic": "t"}, r"^connector kafka needs a column value, .* got key; select to_json"),
        (
            ["value"],
            {},
            r"^connector kafka has no topic; expected the option topic, or a column topic$",
        ),
        (
            ["value"],
            {"topik": "t"},
            r"^unknown option 'topik' in the options of connector kafka; did you mean 'topic'",
        ),
        (
            ["value"],
            {"topic": "t", "kafka.enable.idempotence": "false"},
            r"^kafka property 'enable.idempotence' is 'false'; expected 'true', because a retried request writes",
        ),
    ],
    ids=["strange column", "no value", "no topic", "unknown option", "property"],
)
def test_what_a_sink_of_kafka_cannot_be_is_refused(
    columns: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        KafkaRows().sink({**BROKERS, **options}, "0", columns)


def test_brokers_are_asked_for() -> None:
    with pytest.raises(
        ConfigError, match=r"^connector kafka has no brokers; set their addresses in the option kafka"
    ):
        KafkaRows().source({"subscribe": "orders"}, bounded=True)


def test_rows_that_are_no_message_are_named() -> None:
    with pytest.raises(
        RecordError, match=r"^kafka sink: column value is of type int; expected STRING or BINARY; cast it"
    ):
        message(["value"], {"value": 3}, topic="out")
    with pytest.raises(RecordError, match=r"^kafka sink: a row has no topic; set its column topic, or the"):
        message(["value", "topic"], {"value": "x", "topic": None})


def test_a_source_of_kafka_starts_and_stops_where_it_is_told() -> None:
    told = {**BROKERS, "subscribe": "a, b", "kafka.client.id": "me"}
    stream = KafkaRows().source(told, bounded=False)
    assert (stream.topics, stream.bounded, stream.properties) == (("a", "b"), False, {"client.id": "me"})
    assert stream.start == KafkaOffsetsInitializer.earliest()
    table = KafkaRows().source({**told, "startingoffsets": "1700000000000"}, bounded=True)
    assert table.bounded
    assert table.start == KafkaOffsetsInitializer.timestamp(1_700_000_000_000)
    for said, kind in (("latest", "latest"), ("committed", "committed")):
        assert KafkaRows().source({**told, "startingoffsets": said}, bounded=True).start.kind == kind
    with pytest.raises(
        ConfigError, match=r"^option startingOffsets is 'first'; expected earliest, latest, committed, or"
    ):
        KafkaRows().source({**told, "startingoffsets": "first"}, bounded=True)


def test_files_are_written_as_json_or_text() -> None:
    sink = FileRows().sink({"path": "/out", "prefix": "orders"}, "0", ["id"])
    assert isinstance(sink, FileSink)
    assert (sink.encoder.encode([{"id": 1}]), sink.options.prefix) == (b'{"id":1}\n', "orders")
    text = FileRows().sink({"path": "/out", "format": "text"}, "0", ["line"])
    assert (text.encoder.encode([{"line": "x"}, {"line": "y"}]), text.encoder.suffix) == (b"x\ny\n", ".txt")
    with pytest.raises(
        ConfigError,
        match=r"^connector files writes one string column as text; got a, b; select one column, or set the format to",
    ):
        FileRows().sink({"path": "/out", "format": "text"}, "0", ["a", "b"])
    with pytest.raises(ConfigError, match=r"^connector files has no path; set the option path$"):
        FileRows().sink({}, "0", ["a"])


def test_files_are_read_once_or_watched() -> None:
    table = FileRows().source({"path": "/in", "format": "parquet"}, bounded=True)
    assert isinstance(table, RecordFileSource)
    assert (table.bounded, table.format) == (True, ParquetFormat())
    stream = FileRows().source({"path": "/in", "watch_ms": "50"}, bounded=False)
    assert (stream.bounded, stream.watch_ms) == (False, 50)


def test_numbers_have_an_end_or_none() -> None:
    assert GeneratorRows().source({}, bounded=False).count is None
    source = GeneratorRows().source({"count": "7", "splits": "3", "function": "math:sqrt"}, bounded=True)
    assert (source.count, source.splits, source.function(9)) == (7, 3, 3.0)
    assert GeneratorRows().source({"count": "7"}, bounded=True).function(5) == 5
    with pytest.raises(
        ConfigError, match=r"^connector generator has no end; expected the option count to read it as a"
    ):
        GeneratorRows().source({}, bounded=True)
    with pytest.raises(
        ConfigError, match=r"^function 'math:sqroot' of connector generator cannot be loaded \(module"
    ):
        GeneratorRows().source({"function": "math:sqroot", "count": "1"}, bounded=True)
