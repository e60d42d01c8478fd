"""Schemas that earlier versions wrote still load, and what is written now is what is on record."""

from __future__ import annotations

from pathlib import Path

from tidegate.schema import Schema

FILE = Path(__file__).parent / "schema-1.json"
TYPES = (
    "CHAR(3) NOT NULL",
    "VARCHAR(5)",
    "STRING",
    "BOOLEAN",
    "BINARY(2)",
    "BYTES",
    "DECIMAL(10, 2)",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(3)",
    "INTERVAL YEAR(2) TO MONTH",
    "INTERVAL DAY(3) TO SECOND(6)",
    "ARRAY<INT NOT NULL>",
    "MULTISET<STRING>",
    "MAP<STRING, ROW<`a` INT, `b` RAW('app.Money', 'pickle') 'how much'>>",
)


def schema() -> Schema:
    builder = Schema.new_builder()
    for place, type in enumerate(TYPES):
        builder.column(f"c{place}", type)
    builder.with_comment("the last one").column_by_expression("twice", "c9 * 2")
    builder.column_by_metadata("partition", "INT").column_by_metadata(
        "ts", "TIMESTAMP_LTZ(3)", "timestamp", True
    )
    return builder.watermark("ts", "ts - INTERVAL '5' SECOND").primary_key_named("key", "c0").build()


def test_the_first_version_still_loads() -> None:
    assert Schema.decode(FILE.read_bytes()) == schema()


def test_what_is_written_is_on_record() -> None:
    assert schema().encode() == FILE.read_bytes().rstrip(b"\n")
