"""Logical types and descriptions of streams are mapped where both hold the same values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.unit.tidegate.type_strategies import CARRIED, values
from tidegate.errors import ConfigError
from tidegate.logical_types import LogicalType
from tidegate.serde import codec_for
from tidegate.type_mapping import logical_type, type_information
from tidegate.type_text import parse_type
from tidegate.type_values import converter
from tidegate.types import Kind, TypeInformation, Types


@dataclass(frozen=True)
class Order:
    id: int
    note: str | None


@given(data=st.data(), type=CARRIED)
def test_every_value_passes_the_codec_of_its_description(data: st.DataObject, type: LogicalType) -> None:
    value = converter(type)(data.draw(values(type)))
    codec = codec_for(type_information(type))

    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (Types.BOOLEAN(), "BOOLEAN NOT NULL"),
        (Types.BYTE(), "TINYINT NOT NULL"),
        (Types.SHORT(), "SMALLINT NOT NULL"),
        (Types.INT(), "INT NOT NULL"),
        (Types.LONG(), "BIGINT NOT NULL"),
        (Types.DOUBLE(), "DOUBLE NOT NULL"),
        (Types.STRING(), "STRING NOT NULL"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "BYTES NOT NULL"),
        (Types.SQL_DATE(), "DATE NOT NULL"),
        (Types.SQL_TIME(), "TIME(6) NOT NULL"),
        (Types.SQL_TIMESTAMP(), "TIMESTAMP(6) NOT NULL"),
        (Types.INSTANT(), "TIMESTAMP_LTZ(6) NOT NULL"),
        (Types.OPTIONAL(Types.INT()), "INT"),
        (Types.BASIC_ARRAY(Types.INT()), "ARRAY<INT> NOT NULL"),
        (
            Types.MAP(Types.STRING(), Types.LIST(Types.INT())),
            "MAP<STRING NOT NULL, ARRAY<INT NOT NULL> NOT NULL> NOT NULL",
        ),
        (Types.TUPLE([Types.INT()]), "ROW<`f0` INT NOT NULL> NOT NULL"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "ROW<`a` INT> NOT NULL"),
        (Types.of(Order), "ROW<`id` BIGINT NOT NULL, `note` STRING> NOT NULL"),
    ],
    ids=str,
)
def test_a_description_has_the_smallest_type_that_holds_its_values(info: TypeInformation, text: str) -> None:
    found = logical_type(info)

    assert str(found) == text
    if info.kind not in (Kind.ROW, Kind.RECORD):
        assert type_information(found) == info


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (
            Types.BIG_INT(),
            r"exactly the values of big_int; declare the type of the column, such as DECIMAL\(38, 0\)",
        ),
        (Types.BIG_DEC(), r"such as DECIMAL\(p, s\), with the digits"),
        (Types.FLOAT(), "such as DOUBLE"),
        (Types.of(set[int]), "such as ARRAY or MULTISET"),
        (Types.LIST(Types.of(tuple[int, ...])), "values of variadic<long>"),
        (Types.PICKLED_BYTE_ARRAY(), "values of pickled; declare the type of the column$"),
    ],
    ids=str,
)
def test_a_description_without_an_exact_type_is_refused(info: TypeInformation, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        logical_type(info)


@pytest.mark.parametrize("text", ["NULL", "RAW('a.B', 'pickle')", "ARRAY<NULL>"])
def test_values_without_a_codec_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="have no codec; expected a column of another type"):
        type_information(parse_type(text))


def test_nanoseconds_are_integers_of_any_size() -> None:
    found: list[Any] = [
        type_information(parse_type(text)).items[0] for text in ("TIMESTAMP(7)", "INTERVAL SECOND(9)")
    ]

    assert found == [Types.BIG_INT(), Types.BIG_INT()]
