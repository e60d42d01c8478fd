"""Rows that Parquet and ORC would not give back are named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate.connectors.files import Compaction, FileSink, FileSinkOptions, OrcRows, ParquetRows
from tidegate.errors import ConfigError, RecordError
from tidegate.types import Row

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string())])
ROWS = ParquetRows(SCHEMA)


@pytest.mark.parametrize(
    "value",
    [{"id": 1, "name": "a"}, {"name": "a", "id": 1}, Row(id=1, name="a"), Row(1, "a"), (1, "a")],
    ids=["dict", "other order", "row", "row by position", "tuple"],
)
def test_a_row_is_given_in_several_ways(value: Any) -> None:
    assert ROWS.encode([value, {"id": 2}]).to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"id": 1, "nme": "a"},
            r"record \{'id': 1, 'nme': 'a'\} has the unknown field 'nme'; exp",
        ),
        ({"id": "x", "name": "a"}, r"has 'x' in 'id' \(.*\); expected int32"),
        (
            {"id": 1.5, "name": "a"},
            r"has 1.5 in 'id' \(its value would change\); expected int32",
        ),
        ({"id": 2**31, "name": "a"}, r"has 2147483648 in 'id' \(.*\); expected int32"),
        ({"id": 1, "name": 5}, r"has 5 in 'name' \(.*\); expected string"),
        ({"id": None, "name": "a"}, "has no 'id'; expected int32"),
        ({"name": "a"}, "has no 'id'; expected int32"),
        ((1,), r"record \(1,\) is a tuple; expected a dictionary, or a row or tuple of 2"),
        ("ab", "record 'ab' is a str; expected a dictionary"),
    ],
    ids=["other field", "text", "fraction", "large", "number", "none", "missing", "short", "no row"],
)
@pytest.mark.parametrize("encoder", [ROWS, OrcRows(SCHEMA)], ids=["parquet", "orc"])
def test_a_row_that_does_not_fit_is_refused(encoder: Any, value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        encoder.encode([{"id": 1, "name": "a"}, value])


def test_times_and_nested_values_come_back() -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "tags": pa.list_(pa.string())})
    row = {"at": datetime(2024, 5, 1, tzinfo=UTC), "tags": ["a", None]}

    assert ParquetRows(schema).encode([row]).to_pylist() == [row]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.date32(), datetime(2024, 5, 1, 12)),  # a time without a zone is what is tested
        (pa.timestamp("us", "UTC"), datetime(2024, 5, 1)),
        (pa.timestamp("s"), datetime(2024, 5, 1, 0, 0, 0, 5)),
        (pa.list_(pa.int64()), [1, 1.5]),
        (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
        (pa.binary(), "text"),
    ],
    ids=["date", "zone", "fraction of a second", "within a list", "within a dict", "text"],
)
def test_what_arrow_would_cut_off_in_silence_is_refused(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(RecordError, match=r"in 'x' \(its value would change\); expected"):
        ParquetRows(pa.schema({"x": kind})).encode([{"x": None}, {"x": value}])


@pytest.mark.parametrize("kind", [ParquetRows, OrcRows])
def test_a_schema_needs_different_columns(kind: Any) -> None:
    with pytest.raises(ConfigError, match=f"{kind.__name__} columns are none; expected different names"):
        kind(pa.schema([]))
    with pytest.raises(ConfigError, match="columns are a, a; expected different names"):
        kind(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


@pytest.mark.parametrize("kind", [ParquetRows, OrcRows])
def test_an_unknown_compression_is_refused(kind: Any) -> None:
    with pytest.raises(
        ConfigError, match=f"{kind.__name__} compression is 'lzma'; expected one of snappy, zstd"
    ):
        kind(SCHEMA, compression="lzma")


def test_row_groups_need_rows() -> None:
    with pytest.raises(ConfigError, match="row_group_rows is 0; expected at least 1"):
        ParquetRows(SCHEMA, row_group_rows=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"compression": "gzip"},
            "ParquetRows has its own compression; got compression 'gzip'; expected None",
        ),
        (
            {"compaction": Compaction(size=1, delimiter=b"x")},
            "ParquetRows files are merged record by record; got a delimiter; expected None",
        ),
    ],
    ids=["compression", "delimiter"],
)
def test_options_for_lines_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FileSink("out", ROWS, FileSinkOptions(**options))
