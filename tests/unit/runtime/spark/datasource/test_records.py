from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructType, TimestampType

from tidegate.arrow_rows import ArrowRows
from tidegate.clock import ManualClock
from tidegate.connectors.base import RangeSplit
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet
from tidegate.errors import RecordError, UnavailableError
from tidegate.ids import SplitId
from tidegate.row import Row
from tidegate.runtime.spark.datasource.provider import TableReader
from tidegate.runtime.spark.datasource.records import arrow_schema, columns, read_piece

PAIR = pa.schema([("id", pa.int64()), ("name", pa.string())])


@dataclass(frozen=True)
class Named:
    id: int
    name: str


@pytest.mark.parametrize(
    "values",
    [
        [{"id": 1, "name": "ada"}, {"id": 2, "name": None}, {"id": 3}],
        [(1, "ada"), (2, None), (3, None)],
        [[1, "ada"], [2, None], [3, None]],
        [Row(1, "ada"), Row(2, None), Row(3, None)],
        [Named(1, "ada"), Named(2, None), Named(3, None)],  # type: ignore[arg-type] # what records are is not checked
    ],
    ids=["dictionaries", "tuples", "lists", "rows", "objects"],
)
def test_records_of_any_kind_become_columns(values: Sequence[Any]) -> None:
    assert columns(values, PAIR).to_pylist() == [
        {"id": 1, "name": "ada"},
        {"id": 2, "name": None},
        {"id": 3, "name": None},
    ]


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        ({"b": pa.string(), "a": pa.int64()}, False),
        ({"a": pa.int32()}, True),
        ({"a": pa.int64(), "c": pa.int64()}, True),
    ],
    ids=["the same types", "another type", "a missing column"],
)
def test_rows_are_made_of_columns_only_where_spark_wants_others(
    wanted: dict[str, pa.DataType], made: bool
) -> None:
    rows = ArrowRows(pa.record_batch({"a": [1, 2], "b": ["x", None]}))
    schema = pa.schema(wanted)

    assert columns(rows, schema).equals(columns(rows.unshared().rows(), schema))
    assert rows.converted == made


def test_single_values_are_the_only_column() -> None:
    assert columns([1, None, 3], pa.schema([("n", pa.int64())])).column(0).to_pylist() == [1, None, 3]
    assert columns(["x"], pa.schema([("line", pa.string())])).column(0).to_pylist() == ["x"]


def test_a_number_in_a_column_of_times_counts_milliseconds() -> None:
    schema = arrow_schema(StructType().add("at", TimestampType()))
    at = datetime(2026, 11, 1, tzinfo=UTC)
    found = columns([(int(at.timestamp() * 1_000),), (at,), (None,)], schema)
    assert found.column(0).to_pylist() == [at, at, None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [("x", "y")],
            r"^column id of type int64 cannot be made of records such as \('x', 'y'\) \(.*\); set their types",
        ),
        (
            [(1,)],
            r"^column name of type string cannot be made of records such as \(1,\) \(tuple index out of range\)",
        ),
        (
            [7],
            r"^column id of type int64 cannot be made of records such as 7 \(a single value makes one column, not 2\)",
        ),
        ([object()], r"^column id of type int64 .* \('object' object has no attribute 'id'\)"),
    ],
    ids=["type", "too short", "single", "strange"],
)
def test_records_that_do_not_fit_are_named(values: list[Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        columns(values, PAIR)


def test_spark_gets_the_columns_it_expects() -> None:
    schema = StructType().add("ids", ArrayType(LongType())).add("name", StringType())
    found = columns([([1, 2], "x")], arrow_schema(schema))
    assert found.schema == arrow_schema(schema)


def test_a_table_has_a_task_for_each_split_and_survives_having_none() -> None:
    reader = TableReader(
        {"connector": "generator", "count": "5", "splits": "2"}, StructType().add("value", LongType())
    )
    parts = reader.partitions()
    read = [[value for batch in reader.read(part) for value in batch.column(0).to_pylist()] for part in parts]
    assert read == [[0, 1], [2, 3, 4]]
    from pyspark.sql.datasource import InputPartition

    assert list(reader.read(InputPartition(None))) == []


def test_a_system_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    source = GeneratorSource(abs, 5)
    reader = source.open_reader
    monkeypatch.setattr(type(reader(None)), "poll", lambda self, limit: NotYet())  # type: ignore[arg-type] # not used
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(
        UnavailableError,
        match=r"^split 0/1: no records arrived for 120 s, although the split has more; check the",
    ):
        list(read_piece(source, RangeSplit(SplitId("0/1"), 0, 5), schema, ManualClock(1_000)))
