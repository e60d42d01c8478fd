"""CSV by a schema of columns, and Parquet by a schema of Avro, as PyFlink's programs say it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.unit.connectors.test_file_formats import read
from tidegate.common import Row, Types
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink, FileSource
from tidegate.datastream.formats.avro import AvroSchema
from tidegate.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema, CsvSchemaBuilder
from tidegate.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from tidegate.errors import ConfigError, RecordError


def columns() -> CsvSchemaBuilder:
    return (
        CsvSchema.builder()
        .add_number_column("id", number_type=Types.INT())
        .add_string_column("name")
        .add_array_column("list", ",", element_type=Types.STRING())
        .set_column_separator("|")
        .set_escape_char("\\")
    )


def lines(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("most", [1, 9, 1 << 20])
def test_rows_have_the_columns_of_the_schema_however_a_file_is_cut(tmp_path: Path, most: int) -> None:
    schema = columns().set_use_header().set_strict_headers().build()
    path = lines(tmp_path, 'id|name|list\n1|x\\|y|a,b\n\n2|"p|q"|\n')

    found = read(path, CsvReaderFormat.for_schema(schema), most)

    assert found == [Row(id=1, name="x|y", list=["a", "b"]), Row(id=2, name="p|q", list=None)]
    assert (schema.size(), len(columns()), schema.get_type_info().names) == (3, 3, ("id", "name", "list"))


def test_what_rows_become_is_what_is_read_again(tmp_path: Path) -> None:
    schema = columns().set_use_header().set_null_value("-").build()
    rows = [Row(id=1, name="a|b", list=["x", "y"]), Row(id=2, name=None, list=None)]
    writer = CsvBulkWriters.for_schema(schema)
    path = lines(tmp_path, (writer.head() + writer.encode(rows)).decode())

    assert path.read_text() == 'id|name|list\n1|"a|b"|x,y\n2|-|-\n'
    assert read(path, CsvReaderFormat.for_schema(schema)) == rows


def test_headers_rows_and_comments_are_left_out_as_the_schema_says(tmp_path: Path) -> None:
    one = CsvSchema.builder().add_boolean_column("ok")
    path = lines(tmp_path, "anything\nunits\ntrue\n")

    found = read(path, CsvReaderFormat.for_schema(one.set_use_header().set_skip_first_data_row().build()))
    assert found == [Row(ok=True)]
    strict = CsvReaderFormat.for_schema(one.set_strict_headers().build())
    with pytest.raises(ConfigError, match=r"CSV header is 'anything\\n'; expected the columns ok"):
        read(path, strict)
    plain = CsvSchema.builder().add_columns_from(one.build()).set_allow_comments().build()
    with pytest.raises(
        RecordError, match=r"line at byte 0 of .* is not valid CSV: it is a comment; got b'# so\\n'"
    ):
        read(lines(tmp_path, "# so\n"), CsvReaderFormat.for_schema(plain))


def test_a_field_of_another_type_is_named_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"line at byte 6 of .*rows.csv is not valid CSV: Expected `int"):
        read(lines(tmp_path, "1|a|b\nx|a|b\n"), CsvReaderFormat.for_schema(columns().build()))


def test_quotes_and_escapes_may_mean_themselves(tmp_path: Path) -> None:
    schema = columns().disable_escape_char().disable_quote_char().set_array_element_separator(";").build()

    assert read(lines(tmp_path, '1|"\\|a;b\n'), CsvReaderFormat.for_schema(schema)) == [
        Row(id=1, name='"\\', list=["a", "b"])
    ]


def test_a_line_that_would_be_two_is_refused() -> None:
    schema = columns().set_line_separator("\r\n").set_quote_char("'").build()
    writer = CsvBulkWriters.for_schema(schema)

    assert writer.encode([(1, "it's", None)]) == b"1|'it''s'|\r\n"
    with pytest.raises(RecordError, match="has a line break, which readers reject; expected one line"):
        writer.encode([(1, "a\nb", None)])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: columns().clear_columns().build(), r"CSV columns are \[\]; expected different names"),
        (
            lambda: columns().add_string_column("id").build(),
            "CSV columns are .*; expected different names",
        ),
        (
            lambda: columns().add_array_column("more").build(),
            r"CSV list separators are \[',', ';'\]; expected the same one for all columns",
        ),
        (
            lambda: columns().set_column_separator("||"),
            r"CSV field delimiter is '\|\|'; expected one character",
        ),
        (lambda: columns().set_line_separator(";"), "CSV line separator is ';'; expected"),
    ],
    ids=["no column", "twice", "separators", "two characters", "line"],
)
def test_what_cannot_be_a_schema_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()


def test_a_program_written_for_pyflink_reads_and_writes_csv(tmp_path: Path) -> None:
    schema = columns().build()
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    path = lines(tmp_path, "1|a|b\n2|c|d,e\n")
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), CsvBulkWriters.for_schema(schema)).build()

    env.from_source(source).map(lambda row: row, output_type=schema.get_type_info()).sink_to(sink)
    env.execute("rows")

    (written,) = (tmp_path / "out").glob("[!.]*/*.csv")
    assert written.read_text() == "1|a|b\n2|c|d,e\n"


SALE = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "cents", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "place",
            "type": {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "zip", "type": ["null", "long"]}],
            },
        },
    ],
}


def test_parquet_has_the_columns_of_a_schema_of_avro(tmp_path: Path) -> None:
    schema = AvroSchema.parse_string(json.dumps(SALE))
    sale = {
        "id": 1,
        "note": None,
        "at": datetime(2024, 5, 1, tzinfo=UTC),
        "cents": Decimal("7.25"),
        "tags": ["a"],
        "place": {"zip": 7},
    }
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "inline"})
    sink = FileSink.for_bulk_format(str(tmp_path), AvroParquetWriters.for_generic_record(schema)).build()
    env.from_collection([sale]).sink_to(sink)
    env.execute("sales")

    (written,) = tmp_path.glob("[!.]*/*.parquet")
    assert pq.read_table(written).to_pylist() == [sale]
    fewer = AvroSchema.parse_string(json.dumps({**SALE, "fields": SALE["fields"][:1]}))
    assert read(written, AvroParquetReaders.for_generic_record(fewer)) == [{"id": 1}]
    with pytest.raises(RecordError, match="has no 'id'; expected int32"):
        AvroParquetWriters.for_generic_record(schema).encode([{**sale, "id": None}])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"type": "map", "values": "long"}, r"Avro field 'it' is of type \{.*\}; expected numbers, strings"),
        (
            ["long", "string"],
            r"Avro field 'it' is a union of \['long', 'string'\]; expected one type, or one type and null",
        ),
    ],
    ids=["map", "union"],
)
def test_what_parquet_would_give_back_otherwise_is_refused(kind: Any, message: str) -> None:
    text = json.dumps({"type": "record", "name": "One", "fields": [{"name": "it", "type": kind}]})
    with pytest.raises(ConfigError, match=message):
        AvroParquetWriters.for_generic_record(AvroSchema(text))
    with pytest.raises(
        ConfigError, match='Avro schema "long" is not a record; expected the schema of a record'
    ):
        AvroParquetReaders.for_generic_record(AvroSchema('"long"'))
