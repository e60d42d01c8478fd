"""A schema is built under PyFlink's names, and refuses what does not fit together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tests.unit.tidegate.type_strategies import NAMES, TYPES
from tidegate.errors import ConfigError, StateCorruptError, StateFormatError
from tidegate.logical_types import DataTypes
from tidegate.schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    Schema,
    SchemaBuilder,
    WatermarkSpec,
)

B = Callable[[SchemaBuilder], SchemaBuilder]


def orders() -> SchemaBuilder:
    return (
        Schema.new_builder()
        .column("id", "BIGINT NOT NULL")
        .with_comment("who's")
        .column("price", DataTypes.DECIMAL(10, 2))
        .column_by_expression("total", "price * 2")
        .column_by_metadata("ts", "TIMESTAMP_LTZ(3)", "timestamp", is_virtual=True)
        .column_by_metadata("partition", "INT")
    )


COLUMNS: st.SearchStrategy[Column] = st.one_of(
    st.builds(PhysicalColumn, NAMES, TYPES, st.text(max_size=4)),
    st.builds(MetadataColumn, NAMES, TYPES, st.none() | st.text(), st.booleans(), st.text(max_size=4)),
    st.builds(ComputedColumn, NAMES, st.just("a + 1"), st.text(max_size=4)),
)


@given(columns=st.lists(COLUMNS, max_size=5, unique_by=lambda column: column.name))
def test_the_serial_form_is_read_as_the_same_schema(columns: list[Column]) -> None:
    schema = Schema(tuple(columns))

    assert Schema.decode(schema.encode()) == schema


def test_a_schema_is_shown_as_sql() -> None:
    schema = orders().watermark("ts", "ts - INTERVAL '5' SECOND").primary_key("id").build()

    assert str(schema).splitlines() == [
        "(",
        "  `id` BIGINT NOT NULL COMMENT 'who''s',",
        "  `price` DECIMAL(10, 2),",
        "  `total` AS price * 2,",
        "  `ts` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,",
        "  `partition` INT METADATA,",
        "  WATERMARK FOR `ts` AS ts - INTERVAL '5' SECOND,",
        "  CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED",
        ")",
    ]
    assert schema.names == ("id", "price", "total", "ts", "partition")
    assert [column.name for column in schema.physical] == ["id", "price"]
    assert [column.metadata_key for column in schema.metadata] == ["timestamp", "partition"]
    assert str(schema.row_type) == "ROW<`id` BIGINT NOT NULL, `price` DECIMAL(10, 2)> NOT NULL"
    assert Schema.decode(schema.encode()) == schema
    assert Schema.new_builder().from_schema(schema).build() == schema


def test_columns_are_taken_from_fields_and_rows() -> None:
    fields = Schema.new_builder().from_fields(["a", "b"], ["INT", DataTypes.STRING()]).build()

    assert Schema.new_builder().from_row_data_type("ROW<a INT, b STRING>").build() == fields


def test_a_projection_keeps_key_and_watermark_with_their_columns() -> None:
    schema = orders().watermark("ts", "ts").primary_key("id").build()

    kept = schema.project(["ts", "id"])
    assert kept.names == ("ts", "id")
    assert (kept.watermark, kept.primary_key) == (schema.watermark, schema.primary_key)
    left = schema.project(["price"])
    assert (left.watermark, left.primary_key) == (None, None)
    assert schema.project([]).columns == ()


@pytest.mark.parametrize("name", ["total", "computed"])
def test_a_watermark_may_be_of_a_computed_column_whose_type_follows_later(name: str) -> None:
    schema = Schema.new_builder().column_by_expression(name, "PROCTIME()").watermark(name, name).build()

    assert schema.watermark == WatermarkSpec(name, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.column("id", "INT"), "column 'id' occurs more than once in the schema; got id, price"),
        (lambda b: b.column("", "INT"), "a column has no name"),
        (lambda b: b.column_by_expression("x", " "), "computed column 'x' has no expression"),
        (lambda b: b.column("x", "INTT"), "type 'INTT' cannot be read"),
        (
            lambda b: b.watermark("tss", "tss"),
            "column 'tss' does not exist in the schema, but a watermark is declared for it; did you mean 'ts'",
        ),
        (
            lambda b: b.watermark("ts", ""),
            "watermark of column 'ts' has no expression; expected one, such as `ts - INTERVAL",
        ),
        (
            lambda b: b.watermark("price", "price"),
            r"column 'price' of type DECIMAL\(10, 2\); expected TIMESTAMP\(p\) or TIMESTAMP_LTZ",
        ),
        (
            lambda b: b.column("t", "TIMESTAMP(6)").watermark("t", "t"),
            r"of type TIMESTAMP\(6\); expected .* with p from 0 to 3",
        ),
        (
            lambda b: b.watermark("ts", "ts").watermark("t2", "t2"),
            "watermark is declared twice, for 'ts' and 't2'",
        ),
        (
            lambda b: b.primary_key("idd"),
            "column 'idd' does not exist in the schema, but primary key 'PK_idd' is over it; did you mean 'id'",
        ),
        (
            lambda b: b.primary_key("price"),
            r"over column 'price' of type DECIMAL\(10, 2\), which may be NULL; expected DECIMAL\(10, 2\) NOT NULL",
        ),
        (
            lambda b: b.primary_key("total"),
            "over column 'total', which is computed; expected physical columns",
        ),
        (lambda b: b.primary_key("ts"), "over column 'ts', which is a metadata column"),
        (lambda b: b.primary_key(), r"primary key 'PK_' is over \(\); expected one or more"),
        (lambda b: b.primary_key("id", "id"), r"is over \(id, id\); expected one or more different columns"),
        (
            lambda b: b.primary_key("id").primary_key_named("k", "id"),
            "primary key is declared twice, over id and id",
        ),
        (lambda b: b.from_fields(["a"], []), "got 1 names and 0 types; expected as many"),
        (lambda b: b.from_row_data_type("INT"), "columns cannot be taken from INT; expected a ROW"),
        (lambda b: Schema.new_builder().with_comment("x"), "a comment belongs to the column before it"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_parts_that_do_not_fit_are_refused(change: B, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        change(orders()).build()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["prize"], "column 'prize' does not exist in the schema; did you mean 'price'"),
        (["zz"], "column 'zz' does not exist in the schema; known are id, price, total, ts, partition"),
        (["id", "id"], "column 'id' occurs more than once"),
        (["total"], r"column 'total' is computed and cannot be projected; got `total` AS price \* 2"),
    ],
    ids=["near", "unknown", "twice", "computed"],
)
def test_a_projection_without_sense_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        orders().build().project(names)


def test_a_newer_serial_form_is_refused() -> None:
    with pytest.raises(
        StateFormatError, match="schema: version 2 is newer than supported 1; upgrade tidegate"
    ):
        Schema.decode(b'{"version":2,"columns":[],"tables":7}')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version":1,"columns":[{"kind":"physical","name":"a","type":"X"}]}',
        b'{"version":1,"columns":[],"x":1}',
    ],
    ids=["nothing", "no version", "no type", "other field"],
)
def test_invalid_data_is_refused(data: bytes) -> None:
    with pytest.raises(
        StateCorruptError, match=r"schema cannot be read: .*; expected what Schema.encode made"
    ):
        Schema.decode(data)
