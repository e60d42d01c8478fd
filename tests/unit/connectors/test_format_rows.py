"""Rows as JSON, CSV, Avro and in columns: what is read back, and what is refused."""

from __future__ import annotations

import datetime
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tidegate.common import Types
from tidegate.connectors.files import FileSink
from tidegate.connectors.kafka import KafkaSource
from tidegate.datastream import StreamExecutionEnvironment as Env
from tidegate.datastream.connectors.file_system import FileSource
from tidegate.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from tidegate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from tidegate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tidegate.datastream.formats.orc import OrcBulkWriters
from tidegate.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row
from tidegate.types import Kind, TypeInformation

NOON = datetime.datetime(2026, 11, 19, 12)
FLAT = Types.ROW_NAMED(
    ["id", "user", "score", "paid", "tags", "at", "day", "amount"],
    [
        Types.INT(),
        Types.STRING(),
        Types.DOUBLE(),
        Types.BOOLEAN(),
        Types.LIST(Types.LONG()),
        Types.SQL_TIMESTAMP(),
        Types.SQL_DATE(),
        Types.BIG_DEC(),
    ],
)
FULL = Row.of([7, 'a, "b"\nc', 1.5, True, [1, 2], NOON, NOON.date(), Decimal("1.10")], FLAT.names)
EMPTY = Row.of([None] * 8, FLAT.names)
NESTED = Types.ROW_NAMED(
    ["by", "items", "counts"],
    [
        Types.ROW([Types.STRING(), Types.OPTIONAL(Types.LONG())]),
        Types.LIST(Types.ROW_NAMED(["id"], [Types.LONG()])),
        Types.MAP(Types.STRING(), Types.TUPLE([Types.LONG(), Types.STRING()])),
    ],
)
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "by",
                "type": [
                    "null",
                    {"type": "record", "name": "U", "fields": [{"name": "n", "type": "string"}]},
                ],
            },
            {"name": "others", "type": {"type": "array", "items": "U"}},
            {"name": "notes", "type": {"type": "map", "values": "string"}, "default": {}},
        ],
    }
)


def to_json(info: TypeInformation) -> JsonRowSerializationSchema:
    return JsonRowSerializationSchema.builder().with_type_info(info).build()


def from_json(info: TypeInformation) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema.builder().type_info(info).build()


@pytest.mark.parametrize("row", [FULL, EMPTY], ids=["full", "all null"])
def test_rows_come_back_from_json_and_csv_with_their_types(row: Row) -> None:
    assert from_json(FLAT).deserialize(to_json(FLAT).serialize(row)) == row
    written = CsvRowSerializationSchema.Builder(FLAT).build().serialize(row)
    assert CsvRowDeserializationSchema.Builder(FLAT).build().deserialize(written) == row


def test_rows_within_rows_come_back_from_json() -> None:
    row = Row.of([Row(f0="ada", f1=None), [Row(id=1), Row(id=2)], {"a": (1, "b")}], NESTED.names)
    written = to_json(NESTED).serialize(row)
    assert written == b'{"by":{"f0":"ada","f1":null},"items":[{"id":1},{"id":2}],"counts":{"a":[1,"b"]}}'
    assert from_json(NESTED).deserialize(written) == row


def test_fields_that_are_missing_are_null_or_refused() -> None:
    assert from_json(FLAT).deserialize(b'{"id": 1, "unknown": []}')["id"] == 1
    strict = JsonRowDeserializationSchema.builder().type_info(FLAT).fail_on_missing_field().build()
    with pytest.raises(RecordError, match="missing required field `user`"):
        strict.deserialize(b'{"id": 1}')


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{", "truncated"),
        (b'{"id": "7"}', "Expected `int | null`, got `str`"),
        (b'{"id": 2147483648}', "<= 2147483647"),
    ],
    ids=["no JSON", "another type", "too large"],
)
def test_what_is_no_json_of_the_type_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(RecordError, match=r"^message b'.* is not valid JSON for row\(") as caught:
        from_json(FLAT).deserialize(message)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"1,2", "it has 1 lines and 2 fields; expected 8"),
        (b"x,,,,,,,", "Expected `int`, got `str`"),
        (b"\xff", "invalid start byte"),
        (b'1,"a', "unexpected end of data"),
        (b"# 1,,,,,,,", "it is a comment"),
    ],
    ids=["fields", "no number", "no text", "no end", "comment"],
)
def test_what_is_no_csv_of_the_type_is_refused(message: bytes, reason: str) -> None:
    schema = CsvRowDeserializationSchema.Builder(FLAT).set_allow_comments().build()
    with pytest.raises(RecordError, match=r"^message b.* is not valid CSV for row\(") as caught:
        schema.deserialize(message)
    assert reason in str(caught.value)


def test_csv_has_the_characters_that_are_asked_for() -> None:
    info = Types.ROW([Types.STRING(), Types.LIST(Types.INT()), Types.STRING()])
    writer = (
        CsvRowSerializationSchema.Builder(info)
        .set_field_delimiter("|")
        .set_array_element_delimiter("/")
        .set_quote_character("'")
        .set_null_literal("-")
        .set_line_delimiter("")
        .build()
    )
    assert writer.serialize(("a|b", [1, 2], None)) == b"'a|b'|1/2|-"
    reader = (
        CsvRowDeserializationSchema.Builder(info)
        .set_field_delimiter("|")
        .set_array_element_delimiter("/")
        .set_quote_character("'")
        .set_null_literal("-")
        .build()
    )
    assert reader.deserialize(b"'a|b'|1/2|-") == Row(f0="a|b", f1=[1, 2], f2=None)
    plain = CsvRowSerializationSchema.Builder(info).disable_quote_character().build()
    with pytest.raises(RecordError, match=r"cannot be written as CSV \(need to escape"):
        plain.serialize(("a,b", [], ""))
    escaping = (
        CsvRowSerializationSchema.Builder(info).disable_quote_character().set_escape_character("\\").build()
    )
    assert escaping.serialize(("a,b", [], "c")) == b"a\\,b,,c\n"


def test_avro_rows_have_the_names_of_the_schema_all_the_way_down() -> None:
    writer, reader = (
        AvroRowSerializationSchema(avro_schema_string=ORDER),
        AvroRowDeserializationSchema(None, ORDER),
    )
    row = Row(id=1, by=Row(n="ada"), others=[Row(n="bob")], notes={"a": "b"})
    assert reader.deserialize(writer.serialize(row)) == row
    assert reader.deserialize(writer.serialize(Row(1, None, [], {}))) == Row(
        id=1, by=None, others=[], notes={}
    )
    with pytest.raises(RecordError, match=r"does not match the Avro schema: \w+: "):
        writer.serialize(Row("1", None, [], {}))
    with pytest.raises(RecordError, match=r"^message b'' does not match the Avro schema: EOFError"):
        reader.deserialize(b"")


def test_avro_schemas_come_from_texts_and_files(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(ORDER)
    assert (
        str(AvroSchema.parse_file(str(tmp_path / "order.avsc")))
        == str(AvroSchema.parse_string(ORDER))
        == ORDER
    )
    assert GenericRecordAvroTypeInfo(AvroSchema(ORDER)).kind is Kind.ANY
    with pytest.raises(ConfigError, match=r"^Avro schema .*none.avsc cannot be read: "):
        AvroSchema.parse_file(str(tmp_path / "none.avsc"))
    with pytest.raises(ConfigError, match=r"^invalid Avro schema \{"):
        AvroSchema.parse_string("{")
    with pytest.raises(ConfigError, match=r"record_class is 'org.Order', a Java class; expected avro_schema"):
        AvroRowDeserializationSchema("org.Order")
    with pytest.raises(ConfigError, match=r'the schema is "long"; expected the schema of a record'):
        AvroRowSerializationSchema(avro_schema_string='"long"')


@pytest.mark.parametrize(
    "schema",
    [
        to_json(FLAT),
        CsvRowSerializationSchema.Builder(FLAT).build(),
        AvroRowSerializationSchema(avro_schema_string=ORDER),
    ],
    ids=["JSON", "CSV", "Avro"],
)
def test_rows_that_do_not_fit_or_are_gone_are_refused(schema: Any) -> None:
    gone = Row.of_kind(RowKind.DELETE, *range(4 if isinstance(schema, AvroRowSerializationSchema) else 8))
    with pytest.raises(RecordError, match=r"\w+ cannot encode a DELETE or UPDATE_BEFORE row; .*; write to"):
        schema.serialize(gone)
    with pytest.raises(
        RecordError, match=r"^record \(1, 2\) does not match \w+; expected a row of \d fields: id, "
    ):
        schema.serialize((1, 2))
    assert pickle.loads(pickle.dumps(schema)).__class__ is schema.__class__


def test_fields_are_found_by_name_in_rows_and_dictionaries() -> None:
    info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    for record in (Row(1, 2), Row(b=2, a=1), {"b": 2, "a": 1}, (1, 2), Row(x=1, y=2)):
        assert to_json(info).serialize(record) == b'{"a":1,"b":2}'


def test_types_without_a_form_are_refused_when_a_schema_is_made() -> None:
    pickled = Types.ROW([Types.PICKLED_BYTE_ARRAY()])
    with pytest.raises(
        ConfigError, match=r"^type pickled cannot be represented in JSON or CSV; expected numbers"
    ):
        from_json(pickled)
    with pytest.raises(
        ConfigError, match=r"^CSV cannot represent row\(.* within a row; expected plain fields"
    ):
        CsvRowDeserializationSchema.Builder(NESTED).build()
    with pytest.raises(
        ConfigError, match=r"^JsonRowSerializationSchema: the type is None; expected Types.ROW_NAMED"
    ):
        JsonRowSerializationSchema.builder().build()
    with pytest.raises(ConfigError, match=r"^CSV field delimiter is '::'; expected one character$"):
        CsvRowSerializationSchema.Builder(FLAT).set_field_delimiter("::")
    with pytest.raises(ConfigError, match=r"^type pickled cannot be a column"):
        ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(ConfigError, match=r"the type is int; expected Types.ROW_NAMED"):
        OrcBulkWriters.for_row_type(Types.INT())
    with pytest.raises(ConfigError, match=r"matches column names case-sensitively; omit is_case_sensitive"):
        ParquetColumnarRowInputFormat(FLAT, is_case_sensitive=False)


@pytest.mark.parametrize(
    "schema",
    [
        JsonRowDeserializationSchema.builder().type_info(FLAT).ignore_parse_errors().build(),
        CsvRowDeserializationSchema.Builder(FLAT).set_ignore_parse_errors(True).build(),
    ],
    ids=["JSON", "CSV"],
)
def test_a_schema_that_ignores_errors_makes_a_source_skip_and_count_them(schema: Any) -> None:
    builder = KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("t")
    source = builder.set_value_only_deserializer(pickle.loads(pickle.dumps(schema))).build()
    assert (source.options.on_error, source.produced_type) == ("skip", FLAT)


COLUMNS = Types.ROW_NAMED(
    ["id", "user", "tags", "at", "by"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.LIST(Types.INT()),
        Types.INSTANT(),
        Types.ROW_NAMED(["n"], [Types.OPTIONAL(Types.STRING())]),
    ],
)


@pytest.mark.spec("003/TC-13")
def test_rows_of_a_type_go_to_parquet_and_orc_and_come_back(tmp_path: Path) -> None:
    at = NOON.replace(tzinfo=datetime.UTC)
    rows = [{"id": n, "user": str(n), "tags": [n], "at": at, "by": {"n": None}} for n in range(10)]
    for name, writer in (
        ("parquet", ParquetBulkWriters.for_row_type(COLUMNS)),
        ("orc", OrcBulkWriters.for_row_type(COLUMNS)),
    ):
        env = Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
        sink = FileSink.for_bulk_format(str(tmp_path / name), writer).build()
        env.set_parallelism(1).from_collection(rows).sink_to(sink)
        env.execute(name)
    (written,) = (path for path in (tmp_path / "orc").rglob("*.orc"))
    assert orc.ORCFile(str(written)).read().column("id").to_pylist() == list(range(10))
    (written,) = (path for path in (tmp_path / "parquet").rglob("*.parquet"))
    assert pq.read_table(written).column("at").to_pylist() == [at] * 10
    wanted = Types.ROW_NAMED(["user", "id"], [Types.STRING(), Types.LONG()])
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(wanted), str(written.parent)
    ).build()
    env = Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
    found: list[Any] = env.from_source(source).execute_and_collect(limit=20)
    assert sorted(found, key=lambda row: row.id) == [Row(user=str(n), id=n) for n in range(10)]
