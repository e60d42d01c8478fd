"""What connectors and formats there are, by what each can be used for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.connectors.test_kafka_reader import Fake
from tests.waiting import until
from tidegate.common import Types
from tidegate.connectors.files import (
    AvroFormat,
    AvroRows,
    CsvFormat,
    CsvLines,
    FileFormat,
    FileSink,
    JsonFormat,
    JsonLines,
    RecordFileSource,
)
from tidegate.connectors.kafka import KafkaRecordSerializationSchema, KafkaSource
from tidegate.connectors.spi import Source
from tidegate.datastream import MapFunction, StreamExecutionEnvironment
from tidegate.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from tidegate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from tidegate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tidegate.row import Row

NAMES = ("id", "user")
TYPE = Types.ROW_NAMED(list(NAMES), [Types.LONG(), Types.STRING()])
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "user", "type": "string"}],
    }
)
ROWS = [{"id": number, "user": f"u{number}"} for number in range(20)]


def environment(**settings: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "parallelism.default": 2, "pipeline.progress": "off", **settings}
    )


def rows_of(source: Source[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list(environment().from_source(source).execute_and_collect())
    return sorted(found, key=lambda row: row["id"])


FORMATS = [
    pytest.param(
        CsvRowSerializationSchema.Builder(TYPE).build(),
        CsvRowDeserializationSchema.Builder(TYPE).build(),
        CsvLines(NAMES),
        CsvFormat(types={"id": int}),
        id="CSV",
        marks=pytest.mark.spec("003/TC-07", "003/TC-08"),
    ),
    pytest.param(
        JsonRowSerializationSchema.builder().with_type_info(TYPE).build(),
        JsonRowDeserializationSchema.builder().type_info(TYPE).build(),
        JsonLines(),
        JsonFormat(),
        id="JSON",
        marks=pytest.mark.spec("003/TC-07", "003/TC-09"),
    ),
    pytest.param(
        AvroRowSerializationSchema(avro_schema_string=SCHEMA),
        AvroRowDeserializationSchema(avro_schema_string=SCHEMA),
        AvroRows(SCHEMA),
        AvroFormat(),
        id="Avro",
        marks=pytest.mark.spec("003/TC-07", "003/TC-10"),
    ),
]


@pytest.mark.spec("003/TC-01")
@pytest.mark.parametrize(("to_message", "from_message", "to_file", "from_file"), FORMATS)
def test_rows_go_through_messages_and_files_of_a_format(
    tmp_path: Path, to_message: Any, from_message: Any, to_file: Any, from_file: FileFormat
) -> None:
    written = KafkaRecordSerializationSchema("orders", to_message).encoder(1_000_000)
    builder = KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("orders")
    source = builder.set_value_only_deserializer(from_message).build()
    messages: list[Any] = [Fake(at, written(Row(**row))[1]) for at, row in enumerate(ROWS)]
    assert source.deserializer.values(messages) == [Row(**row) for row in ROWS]

    env = environment()
    env.from_collection(ROWS).sink_to(FileSink(str(tmp_path), to_file))
    env.execute()
    assert rows_of(RecordFileSource(str(tmp_path), from_file)) == ROWS


class Named(MapFunction):
    """Looks each number up in a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def open(self, runtime_context: Any) -> None:
        reading = JsonFormat()
        parts = reading.parts(self.path, 1 << 20)
        rows = [row for part in parts for piece in reading.read(part) for row in piece.values]
        self.names = {row["id"]: row["user"] for row in rows}

    def map(self, value: int) -> str | None:
        return self.names.get(value)


@pytest.mark.spec("003/TC-02")
@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_files_are_read_to_their_end_and_looked_things_up_in_and_written_in_both_modes(
    tmp_path: Path, mode: str
) -> None:
    env = environment(**{"execution.runtime-mode": mode})
    env.from_collection(ROWS).sink_to(FileSink(str(tmp_path / "orders"), JsonLines()))
    env.execute()

    assert rows_of(RecordFileSource(str(tmp_path / "orders"), JsonFormat())) == ROWS
    table = tmp_path / "users"
    table.write_text('{"id":3,"user":"u3"}\n{"id":5,"user":"u5"}\n')
    looked_up = environment().from_collection([3, 4, 5]).map(Named(table)).execute_and_collect()
    assert set(looked_up) == {"u3", None, "u5"}


@pytest.mark.spec("003/TC-02")
def test_a_watched_directory_is_read_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "first").write_text("1\n")
    env = environment(**{"execution.checkpointing.interval": "50 ms"})
    watched = RecordFileSource(str(tmp_path / "in"), JsonFormat(), watch_ms=10)
    env.from_source(watched).sink_to(FileSink(str(tmp_path / "out"), JsonLines()))
    client = env.execute_async()

    def read() -> list[str]:
        return sorted(line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().split())

    until(read, equals=["1"], job=client)
    for number, name in enumerate(("second", "third"), 2):
        (tmp_path / "in" / f".{name}").write_text(f"{number}\n")
        (tmp_path / "in" / f".{name}").rename(tmp_path / "in" / name)
        until(read, equals=[str(each) for each in range(1, number + 1)], job=client)
    client.cancel().result(timeout=60)


WITHOUT_EXTRAS = """
import sys
class Without:
    names = ("botocore", "confluent_kafka", "fastavro", "kafka", "pandas", "psycopg", "pyspark", "rich")
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import pyarrow as pa
from tidegate.connectors.files import AvroRows, CsvLines, FileSink, JsonLines, OrcRows, ParquetRows, TextLines
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.errors import MissingExtraError

settings = {"execution.target": "inline", "parallelism.default": 1, "pipeline.progress": "off"}
env = StreamExecutionEnvironment.get_execution_environment(settings)
rows = env.from_collection([{"id": 1}])
schema = pa.schema({"id": pa.int64()})
for encoder in (JsonLines(), CsvLines(("id",)), ParquetRows(schema), OrcRows(schema)):
    rows.sink_to(FileSink(type(encoder).__name__, encoder))
rows.map(str).sink_to(FileSink("TextLines", TextLines()))
env.execute()
for make in (lambda: AvroRows('"long"'), lambda: rows.sink_to(FileSink("s3://b/out", JsonLines())) and env.execute()):
    try:
        make()
    except MissingExtraError as error:
        print(error)
"""


@pytest.mark.spec("003/TC-25")
def test_files_need_nothing_more_but_for_some_formats_and_places(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", WITHOUT_EXTRAS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    assert sorted(path.suffix for path in tmp_path.glob("*/part-*")) == sorted(
        [".csv", ".jsonl", ".orc", ".parquet", ".txt"]
    )
    assert done.stdout.splitlines() == [
        "Avro is not installed; run: pip install 'tidegate[formats]'",
        "s3 support is not installed; run: pip install 'tidegate[s3]'",
    ]
