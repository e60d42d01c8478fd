"""Avro files: what is read of them however they are cut, what writers refuse, and that nothing comes back changed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import fastavro
import pytest
from hypothesis import given, strategies as st

from tests.unit.connectors.test_file_formats import read
from tidegate.connectors.base.part_file import Summed
from tidegate.connectors.files import AvroFormat, AvroRows, FileSink
from tidegate.connectors.files.avro import AvroCodec
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema
from tidegate.errors import ConfigError, RecordError
from tidegate.types import Row

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"], "default": None},
    ],
}
SCHEMA = json.dumps(ORDER)
GOLDEN = Path(__file__).parents[2] / "golden" / "connectors"
ORDERS = [{"id": number, "user": f"user {number % 7}" if number % 5 else None} for number in range(500)]


def written(path: Path, rows: list[Any], block_bytes: int = 300, codec: AvroCodec = "deflate") -> Path:
    encoder = AvroRows(SCHEMA, codec, block_bytes)
    with path.open("wb") as file:
        content = encoder.open(Summed(file))
        for start in range(0, len(rows), 10):
            content.write(encoder.encode(rows[start : start + 10]))
        content.end()
    return path


@given(most=st.integers(1, 5_000), rows=st.integers(0, 60))
def test_every_record_is_read_once_however_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, most: int, rows: int
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "orders.avro", ORDERS[:rows])

    assert read(path, AvroFormat(), most) == ORDERS[:rows]


@pytest.mark.parametrize("codec", get_args(AvroCodec))
def test_blocks_are_packed_by_each_codec(tmp_path: Path, codec: AvroCodec) -> None:
    path = written(tmp_path / "orders.avro", ORDERS, codec=codec)

    assert read(path, AvroFormat(), 1) == ORDERS
    assert len(AvroFormat().parts(str(path), 1)) > 3


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_are_avro_to_others_and_theirs_to_us(tmp_path: Path, codec: AvroCodec) -> None:
    ours, theirs = written(tmp_path / "ours.avro", ORDERS, codec=codec), tmp_path / "theirs.avro"
    with theirs.open("wb") as file:
        fastavro.writer(file, ORDER, ORDERS, codec=codec, sync_interval=300)

    with ours.open("rb") as file:
        assert list(fastavro.reader(file)) == ORDERS
    assert read(theirs, AvroFormat(), 1) == ORDERS


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_what_avros_own_library_packed_is_read(codec: str) -> None:
    """The files were written by its version 1.12 for Java."""
    path = GOLDEN / f"orders-{codec}.avro"

    assert read(path, AvroFormat(), 1) == ORDERS[:20]
    assert len(AvroFormat().parts(str(path), 1)) == 4


def test_a_part_that_was_begun_goes_on_at_its_record(tmp_path: Path) -> None:
    source = AvroFormat()
    (part, *_) = source.parts(str(written(tmp_path / "orders.avro", ORDERS)), 1 << 20)

    for at in (0, 1, 29, 499):
        pieces = list(source.read(type(part)(part.id, part.path, at, part.stop, begun=True)))
        assert [value for piece in pieces for value in piece.values] == ORDERS[at:]
        assert [row for piece in pieces for row in list(piece.bounds)[:-1]] == list(range(at, 500))


def test_only_the_columns_that_are_wanted_are_made_values_of(tmp_path: Path) -> None:
    path = written(tmp_path / "orders.avro", ORDERS[:2])

    assert read(path, AvroFormat(columns=("id",))) == [{"id": 0}, {"id": 1}]
    with pytest.raises(ConfigError, match=r"orders.avro has no column 'name'; expected one of id, user"):
        read(path, AvroFormat(columns=("name",)))
    with pytest.raises(ConfigError, match=r"Avro columns are \(\); expected at least one, or None for all"):
        AvroFormat(columns=())


def test_records_of_an_older_schema_are_made_to_fit_or_named(tmp_path: Path) -> None:
    path = written(tmp_path / "orders.avro", ORDERS[:1])
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "tags", "type": "string", "default": "-"}]}
    other = {**ORDER, "fields": [{"name": "place", "type": "string"}]}

    assert read(path, AvroFormat(json.dumps(newer))) == [{"id": 0, "user": None, "tags": "-"}]
    with pytest.raises(RecordError, match=r"orders.avro cannot be read from row 0 on: SchemaResolutionError"):
        read(path, AvroFormat(json.dumps(other)))


def test_what_is_no_avro_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders.avro"
    for content, said in [
        (b"", "is not a valid Avro file: it does not start"),
        (b"Obj\x01\xff", "its header is damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(RecordError, match=said):
            read(path, AvroFormat())


def test_what_is_damaged_is_named_by_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "orders.avro", ORDERS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(RecordError, match=r"is damaged: the block at byte \d+ has no valid sync marker"):
        read(path, AvroFormat())


def test_a_block_that_is_damaged_is_named_by_its_row(tmp_path: Path) -> None:
    path = written(tmp_path / "orders.avro", ORDERS)
    second = AvroFormat().parts(str(path), 1)[1].at
    sync = path.read_bytes()[-16:]
    blocks = path.read_bytes().split(sync)
    blocks[2] = blocks[2][:10] + bytes(20) + blocks[2][30:]
    path.write_bytes(sync.join(blocks))

    with pytest.raises(RecordError, match=rf"orders.avro cannot be read from row {second} on: error: "):
        read(path, AvroFormat())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"id": 1, "name": "a"},
            r"record \{'id': 1, 'name': 'a'\} does not match the Avro schema: ValueError",
        ),
        (
            {"user": "a"},
            "does not match the Avro schema: ValueError: Field id is specified in the schema but missing",
        ),
        ({"id": "x"}, "does not match the Avro schema: TypeError"),
        ({"id": 2**70}, "does not match the Avro schema: OverflowError"),
        ({"id": 2.5}, r"record \{'id': 2.5\} would be read back from Avro as \{'id': 2, 'user': None\}"),
        ((1, "a", "b"), r"record \(1, 'a', 'b'\) is a tuple; expected a dictionary, or a row or tuple of 2"),
        ("a", "record 'a' is a str; expected a dictionary"),
    ],
    ids=["other field", "missing", "text", "large", "fraction", "long", "no row"],
)
def test_a_record_that_does_not_fit_is_refused(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        AvroRows(SCHEMA).encode([{"id": 1}, value])


@pytest.mark.parametrize("value", [{"id": 1}, Row(id=1, user=None), Row(1, None), (1, None)], ids=repr)
def test_a_record_is_given_in_several_ways(tmp_path: Path, value: Any) -> None:
    assert read(written(tmp_path / "orders.avro", [value]), AvroFormat()) == [{"id": 1, "user": None}]


def field(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "One", "fields": [{"name": "it", "type": kind}]})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2024, 5, 1, 7, 0, 0, 5, UTC)),
        ({"type": "int", "logicalType": "date"}, date(2024, 5, 1)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("7.25")),
        ({"type": "array", "items": ["null", "string"]}, ["a", None]),
        ({"type": "map", "values": "long"}, {"a": 1}),
        ({"type": "enum", "name": "Colour", "symbols": ["RED"]}, "RED"),
        ("float", 0.1),
        ("double", float("nan")),
        ("double", 3),
    ],
    ids=["time", "date", "decimal", "list", "map", "enum", "four bytes", "nan", "whole"],
)
def test_times_and_nested_values_come_back(tmp_path: Path, kind: Any, value: Any) -> None:
    encoder = AvroRows(field(kind))
    with (tmp_path / "one.avro").open("wb") as file:
        content = encoder.open(Summed(file))
        content.write(encoder.encode([{"it": value}]))
        content.end()

    (found,) = read(tmp_path / "one.avro", AvroFormat())

    assert found["it"] == (pytest.approx(value, nan_ok=True) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2024, 5, 1, 7, 0, 0, 5, UTC)),
        ({"type": "array", "items": "long"}, (1, 2)),
        ("double", 2**60 + 1),
    ],
    ids=["microseconds", "tuple", "digits"],
)
def test_what_avro_would_change_in_silence_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(RecordError, match="would be read back from Avro as"):
        AvroRows(field(kind)).encode([{"it": value}])


def test_what_cannot_be_a_sink_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a record; expected the schema"):
        AvroRows('"long"')
    with pytest.raises(ConfigError, match="invalid Avro schema nothing"):
        AvroRows("nothing")
    with pytest.raises(ConfigError, match="AvroRows codec is 'zip'; expected one of null, deflate"):
        AvroRows(SCHEMA, "zip")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigError, match="block_bytes is 0; expected at least 1"):
        AvroRows(SCHEMA, block_bytes=0)


def test_a_program_written_for_pyflink_reads_and_writes_avro(tmp_path: Path) -> None:
    schema = AvroSchema.parse_string(SCHEMA)
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    source = AvroInputFormat(str(written(tmp_path / "orders.avro", ORDERS)), schema)
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), AvroBulkWriters.for_generic_record(schema)).build()

    env.create_input(source).sink_to(sink)
    env.execute("orders")

    (folder,) = [each for each in (tmp_path / "out").iterdir() if not each.name.startswith(".")]
    assert read_all(folder) == ORDERS


def read_all(folder: Path) -> list[Any]:
    found = [read(path, AvroFormat()) for path in sorted(folder.glob("*.avro"))]
    return sorted((row for rows in found for row in rows), key=lambda row: row["id"])
