"""Logical types keep their values in Arrow, and come back as they were."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, strategies as st

from tests.unit.tidegate.type_strategies import CARRIED, values
from tidegate.connectors.base._arrow import (
    arrow_field,
    arrow_schema,
    arrow_type,
    logical_field,
    logical_type,
)
from tidegate.errors import ConfigError
from tidegate.logical_types import INTEGERS, LogicalType, Root
from tidegate.type_text import parse_type
from tidegate.type_values import converter, python_class


def held(type: LogicalType) -> bool:
    """Whether Arrow holds every value of a type, as the Python class that the type documents."""
    nanoseconds = python_class(type) is int and type.root not in {*INTEGERS, Root.INTERVAL_YEAR_MONTH}
    maps = type.root in (Root.MAP, Root.MULTISET)
    return not nanoseconds and not (maps and type.items[0].nullable)


@given(data=st.data(), type=CARRIED)
def test_values_pass_through_arrow(data: st.DataObject, type: LogicalType) -> None:
    assume(all(map(held, type.walk())))
    value = converter(type)(data.draw(values(type)))
    (found,) = pa.array([value], arrow_type(type)).to_pylist(maps_as_pydicts="strict")

    assert converter(type)(found) == value


@given(type=CARRIED)
def test_a_field_keeps_its_logical_type(type: LogicalType) -> None:
    try:
        field = arrow_field("x", type)
    except ConfigError:
        assume(False)
    assert logical_field(field) == type
    assert field.nullable == type.nullable


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.float16(), "FLOAT"),
        (pa.large_string(), "STRING"),
        (pa.binary(3), "BINARY(3)"),
        (pa.decimal256(38, 2), "DECIMAL(38, 2)"),
        (pa.time64("ns"), "TIME(9)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("us", "Europe/Vienna"), "TIMESTAMP_LTZ(6)"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.large_list(pa.field("item", pa.int8(), False)), "ARRAY<TINYINT NOT NULL>"),
        (pa.map_(pa.string(), pa.int32()), "MAP<STRING NOT NULL, INT>"),
        (pa.struct([pa.field("a", pa.date32())]), "ROW<`a` DATE>"),
        (pa.null(), "NULL"),
    ],
    ids=str,
)
def test_a_type_of_arrow_has_the_smallest_type_that_holds_it(type: pa.DataType, text: str) -> None:
    assert str(logical_type(type)) == text


def test_a_column_that_was_cast_by_another_program_is_what_it_is_now() -> None:
    field = arrow_field("x", parse_type("CHAR(3) NOT NULL"))

    assert str(logical_field(field.with_type(pa.int32()))) == "INT NOT NULL"
    assert str(logical_field(field.with_nullable(True))) == "CHAR(3)"


def test_a_schema_has_a_field_for_each_column() -> None:
    schema = arrow_schema([("id", parse_type("BIGINT NOT NULL")), ("name", parse_type("STRING"))])

    assert schema == pa.schema([pa.field("id", pa.int64(), False), pa.field("name", pa.string())])


@pytest.mark.parametrize(
    "text", ["RAW('a.B', 'pickle')", "ARRAY<RAW('a.B', 'pickle')>", "INTERVAL DAY(6) TO SECOND(9)"]
)
def test_values_that_arrow_does_not_hold_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no type of Arrow holds the values of"):
        arrow_type(parse_type(text))


@pytest.mark.parametrize(
    "type",
    [pa.decimal256(50, 2), pa.date64(), pa.duration("s"), pa.month_day_nano_interval(), pa.binary(0)],
    ids=str,
)
def test_types_of_arrow_without_a_logical_type_are_refused(type: Any) -> None:
    with pytest.raises(ConfigError, match="no type of a table holds the values of Arrow's"):
        logical_type(type)
