"""Values are converted to their logical type without loss, or refused."""

from __future__ import annotations

import datetime
import decimal
import enum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.unit.tidegate.type_strategies import CARRIED, values
from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.logical_types import LogicalType
from tidegate.row import Row
from tidegate.type_text import parse_type
from tidegate.type_values import converter, python_class, row_converter

BERLIN = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000)


class Suit(enum.StrEnum):
    HEARTS = "hearts"


@given(data=st.data(), type=CARRIED)
def test_a_value_of_a_type_stays_as_it_is(data: st.DataObject, type: LogicalType) -> None:
    value = data.draw(values(type))
    kept = converter(type)(value)

    assert kept == value
    assert value is None or isinstance(kept, python_class(type))


CONVERTED: list[tuple[str, Any, Any]] = [
    ("STRING", Suit.HEARTS, "hearts"),
    ("BYTES", bytearray(b"ab"), b"ab"),
    ("BINARY(2)", memoryview(b"ab"), b"ab"),
    ("DOUBLE", 7, 7.0),
    ("DECIMAL(4, 2)", 7, decimal.Decimal("7.00")),
    ("DECIMAL(4, 2)", decimal.Decimal("7.100"), decimal.Decimal("7.10")),
    ("DECIMAL(4, 2)", decimal.Decimal("-0"), decimal.Decimal("0.00")),
    ("DECIMAL(38, 0)", 10**38 - 1, decimal.Decimal(10**38 - 1)),
    ("TIMESTAMP_LTZ(3)", NOON.replace(tzinfo=BERLIN), NOON.replace(hour=10, tzinfo=datetime.UTC)),
    ("TIMESTAMP(9)", NOON, 1_714_564_800_250_000_000),
    ("TIMESTAMP_LTZ(9)", NOON.replace(tzinfo=BERLIN), 1_714_557_600_250_000_000),
    ("TIME(7)", datetime.time(0, 0, 1), 1_000_000_000),
    ("INTERVAL SECOND(9)", datetime.timedelta(microseconds=-1), -1_000),
    ("ARRAY<DOUBLE>", (1, None), [1.0, None]),
    ("MAP<INT, DOUBLE>", {1: 2}, {1: 2.0}),
    ("ROW<a INT, b STRING>", Row(b="x", a=1), (1, "x")),
    ("ROW<a INT, b STRING>", Row(1, "x"), (1, "x")),
    ("ROW<a INT, b STRING>", {"b": None, "a": 1}, (1, None)),
    ("ROW<a DOUBLE>", [1], (1.0,)),
    ("RAW('builtins.int', 'pickle')", True, True),
]


@pytest.mark.parametrize(
    ("type", "value", "kept"),
    CONVERTED,
    ids=[f"{type} {place}" for place, (type, _, _) in enumerate(CONVERTED)],
)
def test_another_class_with_the_same_value_is_converted(type: str, value: Any, kept: Any) -> None:
    made = converter(parse_type(type))(value)

    assert repr(made) == repr(kept)


REFUSED: list[tuple[str, Any, str]] = [
    ("INT NOT NULL", None, "value cannot be converted to INT NOT NULL; got None; expected a value"),
    ("CHAR(2)", "a", "exactly 2 characters of str"),
    ("VARCHAR(2)", "abc", "got 'abc'; expected at most 2 characters of str"),
    ("STRING", b"a", "of str"),
    ("BINARY(2)", b"a", "exactly 2 bytes of bytes"),
    ("BYTES", "a", "of bytes"),
    ("BOOLEAN", 1, "expected bool"),
    ("TINYINT", 128, "got 128; expected -128 to 127"),
    ("INT", True, "got True"),
    ("BIGINT", 1.0, "got 1.0"),
    ("BIGINT", 2**63, "expected -9223372036854775808 to"),
    ("FLOAT", 0.1, "32 bits hold without loss; use DOUBLE"),
    ("FLOAT", 1e300, "32 bits"),
    ("DOUBLE", 2**53 + 1, "64 bits"),
    ("DOUBLE", 10**400, "64 bits"),
    ("DOUBLE", decimal.Decimal(1), "64 bits"),
    ("DECIMAL(4, 2)", decimal.Decimal("1.005"), "4 digits at most, 2 of them behind the point"),
    ("DECIMAL(4, 2)", 100, "4 digits at most"),
    ("DECIMAL(4, 2)", 1.5, "a Decimal or int"),
    ("DECIMAL(4, 2)", decimal.Decimal("NaN"), "a Decimal or int"),
    ("DATE", NOON, "expected a date"),
    ("TIME(3)", datetime.time(0, 0, 0, 1), "of 3 digits of a second at most"),
    ("TIME(3)", datetime.time(0, tzinfo=BERLIN), "without a time zone"),
    ("TIMESTAMP(0)", NOON, "of 0 digits"),
    ("TIMESTAMP(3)", NOON.replace(tzinfo=BERLIN), "a datetime without a time zone"),
    ("TIMESTAMP(3)", datetime.date(2024, 5, 1), "a datetime"),
    ("TIMESTAMP(8)", 5, "or an int of nanoseconds"),
    ("TIME(9)", 86_400 * 10**9, "or an int of nanoseconds"),
    ("TIMESTAMP_LTZ(3)", NOON, "a datetime with a time zone"),
    ("TIMESTAMP_LTZ(3)", datetime.datetime.min.replace(tzinfo=BERLIN), "years 1 to 9999 in UTC"),
    ("INTERVAL YEAR(1)", 13, "an int of months, less than 120, whole years"),
    ("INTERVAL YEAR(1) TO MONTH", 120, "less than 120"),
    (
        "INTERVAL DAY(1)",
        datetime.timedelta(hours=1),
        "a timedelta of less than 10 days in steps of 86400000000000",
    ),
    ("INTERVAL DAY(1) TO SECOND(0)", datetime.timedelta(days=10), "less than 10 days"),
    ("INTERVAL SECOND(3)", 1_000_000, "a timedelta"),
    ("ARRAY<INT>", {1}, "expected a list"),
    ("ARRAY<INT>", ["x"], "value cannot be converted to INT; got 'x'"),
    ("MAP<INT, INT>", [(1, 2)], "expected a dict"),
    ("MAP<DECIMAL(3, 1), INT>", {decimal.Decimal("1.0"): 1, "x": 2}, "a Decimal or int"),
    ("MULTISET<INT>", {1: 0}, "count of a MULTISET is invalid; got 0; expected an int from 1 on"),
    ("ROW<a INT, b INT>", (1,), "row does not match its type; got .*; expected a tuple of 2"),
    ("ROW<a INT>", {"b": 1}, "with the fields a"),
    ("ROW<a INT>", Row(b=1), "with the fields a"),
    ("ROW<a INT>", Row.of_kind(RowKind.DELETE, 1), "with the fields a"),
    ("ROW<a INT>", "x", "row does not match its type"),
    ("ROW<a TINYINT>", (300,), "column 'a': value cannot be converted to TINYINT; got 300"),
    ("RAW('app.Money', 'pickle')", 1, "an object of app.Money"),
    ("NULL", 1, "expected None"),
]


@pytest.mark.parametrize(
    ("type", "value", "message"),
    REFUSED,
    ids=[f"{type} {place}" for place, (type, _, _) in enumerate(REFUSED)],
)
def test_what_would_change_is_refused(type: str, value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        converter(parse_type(type))(value)


def test_nan_and_infinities_are_floats() -> None:
    assert [converter(parse_type(type))(float("inf")) for type in ("FLOAT", "DOUBLE")] == [float("inf")] * 2
    assert str(converter(parse_type("FLOAT"))(float("nan"))) == "nan"


def test_a_row_of_a_table_names_the_column_that_does_not_fit() -> None:
    convert = row_converter(("id", "name"), (parse_type("BIGINT NOT NULL"), parse_type("STRING")))

    assert convert(Row(name="ada", id=1)) == (1, "ada")
    with pytest.raises(
        RecordError, match="column 'id': value cannot be converted to BIGINT NOT NULL; got None"
    ):
        convert((None, "ada"))
