"""Logical types and values of them, for properties."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from hypothesis import strategies as st

from tidegate.logical_types import INTEGERS, DataTypes, Field, IntervalUnit, LogicalType, Root

LENGTHS = st.integers(1, 2**31 - 1)
FRACTIONS = st.integers(0, 9)
YEARS, TIMES = tuple(IntervalUnit)[:2], tuple(IntervalUnit)[2:]
BITS = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


def units(allowed: tuple[IntervalUnit, ...]) -> st.SearchStrategy[tuple[IntervalUnit, IntervalUnit]]:
    pairs = [(first, last) for place, first in enumerate(allowed) for last in allowed[place:]]
    return st.sampled_from(pairs)


@st.composite
def intervals(draw: st.DrawFn) -> LogicalType:
    first, last = draw(st.one_of(units(YEARS), units(TIMES)))
    upper = (first, draw(st.integers(1, 4 if first in YEARS else 6)) if first in ("YEAR", "DAY") else 2)
    if first is last is IntervalUnit.SECOND:
        return DataTypes.INTERVAL((first, draw(FRACTIONS)))
    return DataTypes.INTERVAL(upper, (last, draw(FRACTIONS)))


@st.composite
def decimals(draw: st.DrawFn) -> LogicalType:
    precision = draw(st.integers(1, 38))
    return DataTypes.DECIMAL(precision, draw(st.integers(0, precision)))


ATOMS = st.one_of(
    st.builds(
        LogicalType, st.sampled_from([*sorted(INTEGERS), Root.BOOLEAN, Root.FLOAT, Root.DOUBLE, Root.DATE])
    ),
    st.builds(
        LogicalType,
        st.sampled_from([Root.CHAR, Root.BINARY]),
        st.just(True),
        st.integers(1, 12),
    ),
    st.builds(LogicalType, st.sampled_from([Root.VARCHAR, Root.VARBINARY]), st.just(True), LENGTHS),
    st.just(DataTypes.STRING()),
    st.just(DataTypes.BYTES()),
    decimals(),
    st.builds(
        LogicalType,
        st.sampled_from([Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ]),
        st.just(True),
        FRACTIONS,
    ),
    intervals(),
)


def nullability(types: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    return st.builds(lambda type, nullable: type if nullable else type.not_null(), types, st.booleans())


def rows(types: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    described = st.builds(Field, NAMES, types, st.just("") | st.text(max_size=5))
    fields = st.lists(described, max_size=4, unique_by=lambda field: field.name)
    return st.builds(DataTypes.ROW, fields)


def nested(types: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    keys = nullability(ATOMS)
    return nullability(
        st.one_of(
            st.builds(DataTypes.ARRAY, types),
            st.builds(DataTypes.MULTISET, keys),
            st.builds(DataTypes.MAP, keys, types),
            rows(types),
        )
    )


CARRIED = st.recursive(nullability(ATOMS), nested, max_leaves=4)
"""Types whose values have a codec."""
OTHERS = st.one_of(st.just(DataTypes.NULL()), nullability(st.builds(DataTypes.RAW, st.text(), st.text())))
TYPES = st.recursive(nullability(ATOMS) | OTHERS, nested, max_leaves=4)
"""All types."""


def values(type: LogicalType) -> st.SearchStrategy[Any]:
    """Values of the Python class that the type documents, NULL among them if it may be."""
    made = _values(type)
    return st.none() | made if type.nullable else made


def _values(type: LogicalType) -> st.SearchStrategy[Any]:
    short = min(type.precision, 6)
    fixed = type.precision if type.root in (Root.CHAR, Root.BINARY) else None
    match type.root:
        case Root.CHAR | Root.VARCHAR:
            return st.text(min_size=fixed or 0, max_size=fixed or short)
        case Root.BINARY | Root.VARBINARY:
            return st.binary(min_size=fixed or 0, max_size=fixed or short)
        case Root.BOOLEAN:
            return st.booleans()
        case Root.FLOAT:
            return st.floats(width=32, allow_nan=False)
        case Root.DOUBLE:
            return st.floats(allow_nan=False)
        case Root.DECIMAL:
            limit = 10**type.precision - 1
            return st.integers(-limit, limit).map(
                lambda number: decimal.Decimal((int(number < 0), digits(number), -type.scale))
            )
        case Root.DATE:
            return st.dates()
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return _moments(type)
        case Root.INTERVAL_YEAR_MONTH:
            step = 12 if type.units == (IntervalUnit.YEAR, IntervalUnit.YEAR) else 1
            return st.integers(-(10**type.precision) + 1, 10**type.precision - 1).map(
                lambda years: years * step
            )
        case Root.INTERVAL_DAY_TIME:
            whole = st.integers(-(10**type.precision) + 1, 10**type.precision - 1)
            if type.scale > 6 and type.units is not None:
                return whole.map(lambda days: days * 86_400 * 10**9)
            return whole.map(lambda days: datetime.timedelta(days=days))
        case Root.ARRAY:
            return st.lists(values(type.items[0]), max_size=3)
        case Root.MAP:
            return st.dictionaries(values(type.items[0]), values(type.items[1]), max_size=3)
        case Root.MULTISET:
            return st.dictionaries(values(type.items[0]), st.integers(1, 9), max_size=3)
        case Root.ROW:
            return st.tuples(*(values(field.type) for field in type.fields))
        case root if root in BITS:
            return st.integers(-(1 << BITS[root]), (1 << BITS[root]) - 1)
    return st.nothing()


def digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def _moments(type: LogicalType) -> st.SearchStrategy[Any]:
    if type.precision > 6:
        step = 10 ** (9 - type.precision)
        top = 86_400 * 10**9 - 1 if type.root is Root.TIME else 10**18
        return st.integers(0, top // step).map(lambda steps: steps * step)
    step = 10 ** (6 - type.precision)
    if type.root is Root.TIME:
        return st.times().map(lambda time: time.replace(microsecond=time.microsecond // step * step))
    zones = st.just(datetime.UTC) if type.root is Root.TIMESTAMP_LTZ else st.none()
    return st.datetimes(timezones=zones).map(
        lambda moment: moment.replace(microsecond=moment.microsecond // step * step)
    )
