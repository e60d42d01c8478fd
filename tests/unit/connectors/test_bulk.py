"""Rows that Parquet and ORC would not give back are named."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from tidegate.arrow_rows import ArrowRows
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


COLUMN_TYPES = st.sampled_from(
    [
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.date32(),
    ]
)


@given(
    found=st.dictionaries(st.sampled_from("abc"), COLUMN_TYPES, min_size=1),
    wanted=st.dictionaries(st.sampled_from("abc"), st.tuples(COLUMN_TYPES, st.booleans()), min_size=1),
    form=st.sampled_from(["dict", "tuple", "row"]),
    data=st.data(),
)
def test_columns_are_taken_only_if_their_rows_would_give_the_same(
    found: dict[str, pa.DataType], wanted: dict[str, tuple[pa.DataType, bool]], form: Any, data: st.DataObject
) -> None:
    columns = [
        pa.array(data.draw(st.lists(st.none() | _values(kind), min_size=2, max_size=2)), kind)
        for kind in found.values()
    ]
    rows = ArrowRows(pa.RecordBatch.from_arrays(columns, names=list(found)), form)
    schema = pa.schema([pa.field(name, kind, nullable) for name, (kind, nullable) in wanted.items()])

    for rows_format in (ParquetRows(schema), OrcRows(schema)):
        taken = rows_format.encode_arrow(rows)
        if taken is not None:
            assert taken.equals(rows_format.encode(rows.unshared().rows()))
    assert not rows.converted


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        return st.integers(-100, 100)
    if pa.types.is_floating(kind):
        return st.sampled_from([0.5, 1.0, -3.0])
    return st.just(date(2024, 5, 1)) if pa.types.is_date(kind) else st.sampled_from(["", "a"])
