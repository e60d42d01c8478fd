"""The SQL form of types is read as it is written, and as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.unit.tidegate.type_strategies import TYPES
from tidegate.errors import ConfigError
from tidegate.logical_types import LogicalType
from tidegate.type_text import parse_type


@given(type=TYPES)
def test_what_is_written_is_read_as_the_same_type(type: LogicalType) -> None:
    assert parse_type(str(type)) == type


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("int", "INT"),
        ("INTEGER null", "INT"),
        ("char", "CHAR(1)"),
        ("CHARACTER VARYING(7)", "VARCHAR(7)"),
        ("numeric(5)", "DECIMAL(5, 0)"),
        ("DEC", "DECIMAL(10, 0)"),
        ("double precision not null", "DOUBLE NOT NULL"),
        ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
        ("timestamp", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE NOT NULL", "TIMESTAMP(3) NOT NULL"),
        ("TIMESTAMP WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(6)"),
        ("interval day(3) to second", "INTERVAL DAY(3) TO SECOND(6)"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("INT NOT NULL ARRAY NOT NULL MULTISET", None),
        ("INT NOT NULL ARRAY NOT NULL", "ARRAY<INT NOT NULL> NOT NULL"),
        ("row(id bigint, `my name` string 'who')", "ROW<`id` BIGINT, `my name` STRING 'who'>"),
        ("ROW<>", "ROW<>"),
        ("RAW( 'a.B' , 'it''s' )", "RAW('a.B', 'it''s')"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_spellings_are_read(text: str, written: str | None) -> None:
    if written is None:
        with pytest.raises(ConfigError, match="element of MULTISET"):
            parse_type(text)
    else:
        assert str(parse_type(text)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "BIGNIT",
            "type 'BIGNIT' cannot be read; got 'BIGNIT' at position 0; expected a type; did you mean BIGINT",
        ),
        ("", "type '' ends too early; expected one of ARRAY, BIGINT"),
        ("DECIMAL(10", "type 'DECIMAL\\(10' ends too early; expected '\\)'"),
        ("DECIMAL(1, 2, 3)", "got ', 3\\)' at position 12; expected '\\)'"),
        ("CHAR(3, 0)", "got ', 0\\)' at position 6; expected '\\)'"),
        ("INTERVAL MONTH(3)", "got '\\(3\\)' at position 14; expected the end of the type"),
        ("DECIMAL(x)", "got 'x\\)' at position 8; expected a number"),
        ("DECIMAL(50)", "type 'DECIMAL\\(50\\)': precision of DECIMAL is out of range"),
        ("INT INT", "got 'INT' at position 3; expected the end of the type"),
        ("INT NOT", "ends too early; expected 'NULL'"),
        ("MAP<INT>", "got '>' at position 7; expected ','"),
        ("ROW<INT>", "got '>' at position 7; expected one of ARRAY"),
        ("ROW(a INT>", "got '>' at position 9; expected '\\)'"),
        ("ROW a INT", "got 'a INT' at position 3; expected '<'"),
        ("RAW('a')", "got '\\)' at position 7; expected ','"),
        ("RAW(x, 'a')", "expected the name of a class in single quotes"),
        ("INTERVAL WEEK", "got 'WEEK' at position 8; expected one of YEAR, MONTH"),
        ("TIMESTAMP(3) WITH TIME ZONE", "a zone for each value is not supported"),
        ("TIME WITH LOCAL TIME ZONE", "expected TIME\\(p\\), TIMESTAMP\\(p\\) or TIMESTAMP_LTZ\\(p\\)"),
        ("NULL NOT NULL", "NULL NOT NULL has no values"),
        ("INT; DROP", "got '; DROP' at position 3; expected the end of the type"),
    ],
    ids=lambda value: value[:30],
)
def test_an_invalid_type_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_type(text)
