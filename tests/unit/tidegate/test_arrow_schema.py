"""Arrow types and logical types hold the same values, or are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from tidegate.arrow_rows import ArrowRows, RowForm
from tidegate.arrow_schema import arrow_type, logical_type_of, row_type, schema
from tidegate.errors import ConfigError
from tidegate.logical_types import DataTypes, LogicalType
from tidegate.types import TypeInformation, Types

LEAVES = st.sampled_from(
    [
        DataTypes.CHAR(3),
        DataTypes.VARCHAR(7),
        DataTypes.STRING(),
        DataTypes.BOOLEAN(),
        DataTypes.BINARY(4),
        DataTypes.VARBINARY(9),
        DataTypes.BYTES(),
        DataTypes.DECIMAL(12, 3),
        DataTypes.TINYINT(),
        DataTypes.SMALLINT(),
        DataTypes.INT(),
        DataTypes.BIGINT(),
        DataTypes.FLOAT(),
        DataTypes.DOUBLE(),
        DataTypes.DATE(),
        DataTypes.TIME(2),
        DataTypes.TIMESTAMP(0),
        DataTypes.TIMESTAMP(6),
        DataTypes.TIMESTAMP_LTZ(3),
        DataTypes.INTERVAL(DataTypes.YEAR(4), DataTypes.MONTH()),
        DataTypes.INTERVAL(DataTypes.DAY(3), DataTypes.SECOND(4)),
    ]
)


def nested(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    return st.one_of(
        inner.map(DataTypes.ARRAY),
        LEAVES.map(LogicalType.not_null).map(DataTypes.MULTISET),
        inner.map(lambda value: DataTypes.MAP(DataTypes.STRING().not_null(), value)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: DataTypes.ROW([DataTypes.FIELD(f"f{n}", each) for n, each in enumerate(types)])
        ),
    )


TYPES = st.recursive(
    st.tuples(LEAVES, st.booleans()).map(lambda pair: pair[0] if pair[1] else pair[0].not_null()), nested
)


@given(st.lists(TYPES, min_size=1, max_size=4))
def test_a_row_comes_back_from_its_schema(types: list[LogicalType]) -> None:
    row = DataTypes.ROW([DataTypes.FIELD(f"c{number}", each) for number, each in enumerate(types)], False)

    assert row_type(schema(row)) == row


@pytest.mark.parametrize(
    ("logical", "value"),
    [
        (DataTypes.STRING(), "a"),
        (DataTypes.BINARY(2), b"ab"),
        (DataTypes.DECIMAL(5, 2), Decimal("1.25")),
        (DataTypes.SMALLINT(), -3),
        (DataTypes.DOUBLE(), 0.1),
        (DataTypes.DATE(), date(2024, 5, 1)),
        (DataTypes.TIME(3), time(1, 2, 3, 4_000)),
        (DataTypes.TIMESTAMP(6), datetime(2024, 5, 1, 1, 2, 3, 4)),
        (DataTypes.TIMESTAMP_LTZ(6), datetime(2024, 5, 1, 1, 2, 3, 4, UTC)),
        (DataTypes.INTERVAL(DataTypes.DAY(3), DataTypes.SECOND(6)), timedelta(microseconds=7)),
    ],
    ids=lambda each: str(each) if isinstance(each, LogicalType) else type(each).__name__,
)
def test_its_values_come_back_from_a_column(logical: LogicalType, value: Any) -> None:
    assert pa.array([value, None], arrow_type(logical)).to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("logical", "message"),
    [
        (
            DataTypes.TIMESTAMP(9),
            r"column 'x' is TIMESTAMP\(9\), whose values .*; expected at most 6 .*; cast it",
        ),
        (
            DataTypes.RAW("a.B"),
            r"column 'x' is RAW\('a.B', 'pickle'\), which has no Arrow type; expected .*; cast it",
        ),
        (
            DataTypes.ARRAY(DataTypes.ROW([DataTypes.FIELD("at", DataTypes.TIME(7))])),
            r"column 'x', field 'item', field 'at' is TIME\(7\)",
        ),
    ],
    ids=["nanoseconds", "raw", "nested"],
)
def test_a_type_without_a_column_is_refused(logical: LogicalType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        schema(DataTypes.ROW([DataTypes.FIELD("x", logical)]))


def test_a_schema_is_that_of_a_row() -> None:
    with pytest.raises(
        ConfigError, match="the type of an Arrow schema is INT; expected a ROW; wrap it in a ROW"
    ):
        schema(DataTypes.INT())


@pytest.mark.parametrize(
    "found",
    [
        pa.timestamp("ns"),
        pa.timestamp("us", "Europe/Vienna"),
        pa.time64("ns"),
        pa.uint64(),
        pa.decimal128(5, -2),
        pa.decimal256(60, 2),
        pa.list_(pa.uint64()),
        pa.struct([("a", pa.duration("ns"))]),
    ],
    ids=str,
)
def test_a_column_without_a_type_is_refused(found: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"column 'x'.* is of the Arrow type .*; expected .*; cast it"):
        row_type(pa.schema({"x": found}))


def test_columns_that_hold_more_than_a_type_says_have_the_next_larger_one() -> None:
    found = pa.schema({"a": pa.uint32(), "b": pa.dictionary(pa.int8(), pa.string()), "c": pa.large_binary()})

    assert [str(field.type) for field in row_type(found).fields] == ["BIGINT", "STRING", "BYTES"]


def test_metadata_of_a_column_that_was_changed_says_nothing() -> None:
    (field,) = schema(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.VARCHAR(3))]))

    assert str(row_type(pa.schema([field.with_type(pa.int64())]))) == "ROW<`a` BIGINT> NOT NULL"
    assert logical_type_of(field.type) == DataTypes.STRING()


NAMED = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


@pytest.mark.parametrize(
    ("info", "form", "columns", "expected"),
    [
        (None, "dict", {"id": [1]}, True),
        (NAMED, "row", {"id": [1], "name": [None]}, True),
        (NAMED, "dict", {"id": [1], "name": ["a"]}, False),
        (NAMED, "row", {"name": ["a"], "id": [1]}, False),
        (NAMED, "row", {"id": [1.5], "name": ["a"]}, False),
        (NAMED, "row", {"id": [1]}, False),
        (PAIR, "tuple", {"a": [1], "b": ["a"]}, True),
        (PAIR, "tuple", {"a": [1], "b": [None]}, False),
        (Types.TUPLE([Types.OPTIONAL(Types.LONG())]), "tuple", {"a": [None, 1]}, True),
        (Types.TUPLE([Types.LIST(Types.LONG())]), "tuple", {"a": [[1]]}, False),
        (Types.TUPLE([Types.FLOAT()]), "tuple", {"a": [1.5]}, False),
        (Types.LONG(), "dict", {"a": [1]}, False),
    ],
    ids=[
        "nothing is declared",
        "a row",
        "dictionaries instead of rows",
        "another order",
        "another type",
        "a column less",
        "a tuple",
        "null",
        "null where it may be",
        "a list inside",
        "a type without a column",
        "not a row",
    ],
)
def test_a_declared_type_is_carried_only_by_exactly_its_columns(
    info: TypeInformation | None, form: RowForm, columns: dict[str, Any], expected: bool
) -> None:
    record_batch = pa.record_batch(
        {
            name: pa.array(values, pa.string() if name in ("name", "b") else None)
            for name, values in columns.items()
        }
    )

    assert ArrowRows(record_batch, form).has_type(info) == expected
