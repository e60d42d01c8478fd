"""Logical types are compared by what they hold, and say what is wrong with a declaration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.errors import ConfigError
from tidegate.logical_types import DataTypes, Field, IntervalUnit, LogicalType, Root


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (DataTypes.CHAR(), "CHAR(1)"),
        (DataTypes.VARCHAR(), "VARCHAR(1)"),
        (DataTypes.STRING(), "STRING"),
        (DataTypes.BINARY(), "BINARY(1)"),
        (DataTypes.BYTES(nullable=False), "BYTES NOT NULL"),
        (DataTypes.DECIMAL(), "DECIMAL(10, 0)"),
        (DataTypes.TIME(), "TIME(0)"),
        (DataTypes.TIMESTAMP(), "TIMESTAMP(6)"),
        (DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(3), "TIMESTAMP_LTZ(3)"),
        (DataTypes.INTERVAL(DataTypes.YEAR()), "INTERVAL YEAR(2)"),
        (DataTypes.INTERVAL(DataTypes.YEAR(4), DataTypes.MONTH()), "INTERVAL YEAR(4) TO MONTH"),
        (DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3)), "INTERVAL DAY(2) TO SECOND(3)"),
        (DataTypes.INTERVAL(DataTypes.HOUR(), DataTypes.MINUTE()), "INTERVAL HOUR TO MINUTE"),
        (DataTypes.INTERVAL(DataTypes.SECOND()), "INTERVAL SECOND(6)"),
        (
            DataTypes.MAP(DataTypes.INT().not_null(), DataTypes.ARRAY(DataTypes.DOUBLE())),
            "MAP<INT NOT NULL, ARRAY<DOUBLE>>",
        ),
        (DataTypes.MULTISET(DataTypes.BOOLEAN()), "MULTISET<BOOLEAN>"),
        (DataTypes.ROW([Field("a`b", DataTypes.DATE(), "it's")]), "ROW<`a``b` DATE 'it''s'>"),
        (DataTypes.RAW("app.Money"), "RAW('app.Money', 'pickle')"),
        (DataTypes.NULL(), "NULL"),
    ],
    ids=str,
)
def test_a_type_is_written_as_flink_writes_it_with_its_default_numbers(type: LogicalType, text: str) -> None:
    assert str(type) == text


def test_nullability_is_part_of_equality_unless_left_out() -> None:
    nullable, required = DataTypes.ARRAY(DataTypes.INT()), DataTypes.ARRAY(DataTypes.INT()).not_null()

    assert nullable != required
    assert nullable.same_kind(required)
    assert required.as_nullable() == nullable
    assert len({nullable, required, required.as_nullable()}) == 2
    assert not DataTypes.ARRAY(DataTypes.INT().not_null()).same_kind(nullable)


def test_types_inside_are_walked_from_the_outermost() -> None:
    row = DataTypes.ROW([Field("tags", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()))])

    assert [type.root for type in row.walk()] == [Root.ROW, Root.MAP, Root.VARCHAR, Root.INT]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataTypes.CHAR(0), "length of CHAR is out of range; got 0; expected 1 to 2147483647"),
        (lambda: DataTypes.VARBINARY(2**31), "length of VARBINARY is out of range"),
        (lambda: DataTypes.DECIMAL(39), "precision of DECIMAL is out of range; got 39; expected 1 to 38"),
        (lambda: DataTypes.DECIMAL(3, 4), r"scale of DECIMAL\(3\) is out of range; got 4; expected 0 to 3"),
        (lambda: DataTypes.TIMESTAMP(10), "precision of TIMESTAMP is out of range; got 10; expected 0 to 9"),
        (lambda: DataTypes.TIMESTAMP(True), "precision of TIMESTAMP is out of range; got True"),
        (
            lambda: DataTypes.INTERVAL(DataTypes.DAY(7)),
            "precision of days of INTERVAL DAY TO SECOND is out of range",
        ),
        (lambda: DataTypes.INTERVAL(DataTypes.SECOND(10)), "precision of seconds is out of range"),
        (
            lambda: DataTypes.INTERVAL(DataTypes.SECOND(), DataTypes.DAY()),
            "interval from SECOND to DAY does not exist; expected YEAR and MONTH, or two of DAY",
        ),
        (
            lambda: DataTypes.INTERVAL(DataTypes.YEAR(), DataTypes.DAY()),
            "interval from YEAR to DAY does not exist",
        ),
        (
            lambda: DataTypes.MAP(DataTypes.ARRAY(DataTypes.INT()), DataTypes.INT()),
            "key of MAP is ARRAY<INT>; expected a type without ARRAY, whose values cannot be keys of a dictionary",
        ),
        (
            lambda: DataTypes.MULTISET(DataTypes.ROW([Field("m", DataTypes.MULTISET(DataTypes.INT()))])),
            "element of MULTISET is ROW<`m` MULTISET<INT>>; expected a type without MULTISET",
        ),
        (
            lambda: DataTypes.ROW([Field("a", DataTypes.INT()), Field("a", DataTypes.INT())]),
            "field 'a' occurs more than once in a ROW",
        ),
        (lambda: DataTypes.ROW([Field("", DataTypes.INT())]), "a field of a ROW has no name"),
        (lambda: DataTypes.NULL().not_null(), "NULL NOT NULL has no values"),
        (lambda: LogicalType(Root.MAP, items=(DataTypes.INT(),)), "MAP has 1 types inside; expected 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_declaration_without_sense_is_refused(make: Callable[[], LogicalType], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_an_interval_without_units_spans_all_of_its_kind() -> None:
    assert LogicalType(Root.INTERVAL_DAY_TIME, precision=2, scale=6).units == (
        IntervalUnit.DAY,
        IntervalUnit.SECOND,
    )
