"""Types of Postgres columns: the logical type of each, and how the text form of its values is read.

| Postgres | logical type | Python |
|---|---|---|
| smallint, integer, bigint | SMALLINT, INT, BIGINT | `int` |
| oid, xid | BIGINT | `int` |
| numeric(p, s) | DECIMAL(p, s) up to 38 digits, else STRING | `decimal.Decimal`, `str` |
| numeric | DECIMAL(38, 18) | `decimal.Decimal` as it is in the database |
| real, double precision | FLOAT, DOUBLE | `float`, also NaN and infinity |
| boolean | BOOLEAN | `bool` |
| text, json, jsonb, xml, enums, ranges and all other types | STRING | `str` |
| varchar(n), char(n) | VARCHAR(n), CHAR(n) | `str` |
| bytea | BYTES | `bytes` |
| date, time(p), timestamp(p) | DATE, TIME(p), TIMESTAMP(p) | `date`, `time`, `datetime` |
| timestamp(p) with time zone | TIMESTAMP_LTZ(p) | `datetime` in UTC |
| arrays | ARRAY | `list`; lower bounds other than 1 are dropped |
| composite types | ROW | `tuple` |
| domains | as the type below | |

Values that Python does not have (dates that are infinite or BC or beyond the year 9999, the time 24:00) are refused, unless
`SpecialDates` maps them to NULL. Sessions must use the settings in `SESSION`, which fix the text forms.

Example:
    >>> catalog = TypeCatalog({})
    >>> column = catalog.column(1231, -1)
    >>> column.logical, column.parse("{1.50,NULL}")
    (ARRAY<DECIMAL(38, 18)>, [Decimal('1.50'), None])
"""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from tidegate.cdc.postgres.literals import parse_array, parse_composite
from tidegate.errors import RecordError
from tidegate.logical_types import DataTypes, LogicalType

__all__ = ["SESSION", "ColumnType", "KeyOrder", "PgField", "PgType", "SpecialDates", "TypeCatalog"]

SESSION: Final[Mapping[str, str]] = {
    "DateStyle": "ISO",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
}
"""Settings of every session whose values are parsed here."""

SpecialDates: TypeAlias = Literal["fail", "null"]
"""The handling of dates and times that Python cannot represent."""

KeyOrder: TypeAlias = Literal["values", "texts"]
"""How a key column is compared: by value, or by the bytes of its text, as for texts of any collation, enums and intervals."""

Parse: TypeAlias = Callable[[str], Any]


class PgField(NamedTuple):
    """A field of a composite type."""

    name: str
    type_oid: int
    modifier: int


class PgType(NamedTuple):
    """A type in the server's catalog.

    Args:
        name: Its name.
        kind: `b`ase, `c`omposite, `d`omain, `e`num, `r`ange or `m`ultirange.
        element: The type of the elements if it is an array, else 0.
        base: The base type of a domain and its modifier.
        fields: The fields of a composite type.
    """

    name: str
    kind: str = "b"
    element: int = 0
    base: tuple[int, int] = (0, -1)
    fields: tuple[PgField, ...] = ()


@dataclass(frozen=True)
class ColumnType:
    """The decoder of a column.

    Args:
        logical: The type of its values, with NULL.
        parse: Parses the text of a value that is not NULL.
        source: `parse` as a source expression of the bytes `raw`; it may call `convert`, which is `parse`.
    """

    logical: LogicalType
    parse: Parse
    source: str = "convert(raw.decode())"


@dataclass(frozen=True)
class TypeCatalog:
    """The types of a database: built-in types, and those of its catalog."""

    types: Mapping[int, PgType]
    special_dates: SpecialDates = "fail"
    _known: dict[tuple[int, int], ColumnType] = field(default_factory=dict, repr=False, compare=False)

    def column(self, oid: int, modifier: int) -> ColumnType:
        """The decoder of a column with this type and modifier."""
        key = (oid, modifier)
        if key not in self._known:
            self._known[key] = self._column(oid, modifier)
        return self._known[key]

    def key_order(self, oid: int, modifier: int) -> KeyOrder | None:
        """How the database has to compare values of a key column to have Python's order."""
        column = self.column(oid, modifier)
        if self._base(oid) in _ORDERED or column.parse is Decimal:
            return "values"
        return "texts" if column.parse is str else None

    def _base(self, oid: int) -> int:
        found = self.types.get(oid)
        return self._base(found.base[0]) if found is not None and found.kind == "d" else oid

    def _column(self, oid: int, modifier: int) -> ColumnType:
        if oid in _ARRAYS:
            return self._array(_ARRAYS[oid], modifier)
        if oid in _PLAIN:
            return _PLAIN[oid]
        if oid in _SIZED:
            return _SIZED[oid](modifier)
        if oid in _DATES:
            logical, parse = _DATES[oid](modifier)
            return ColumnType(logical, _special(parse, self.special_dates))
        match self.types.get(oid):
            case PgType(kind="d", base=(base, own)):
                return self.column(base, own if modifier == -1 else modifier)
            case PgType(kind="c", fields=fields):
                return self._composite(fields)
            case PgType(element=element) if element:
                return self._array(element, modifier)
        return _TEXT

    def _array(self, element: int, modifier: int) -> ColumnType:
        item = self.column(element, modifier)
        delimiter = ";" if element == _BOX else ","
        return ColumnType(
            DataTypes.ARRAY(item.logical), lambda text: parse_array(text, item.parse, delimiter)
        )

    def _composite(self, fields: tuple[PgField, ...]) -> ColumnType:
        columns = [self.column(each.type_oid, each.modifier) for each in fields]
        row = DataTypes.ROW(
            [DataTypes.FIELD(each.name, column.logical) for each, column in zip(fields, columns, strict=True)]
        )
        parsers = [column.parse for column in columns]
        return ColumnType(row, lambda text: parse_composite(text, parsers))


def _numeric(modifier: int) -> ColumnType:
    if modifier < _HEADER:
        return ColumnType(DataTypes.DECIMAL(38, 18), Decimal)
    precision, scale = (modifier - _HEADER) >> 16 & 0xFFFF, (modifier - _HEADER) & 0x7FF
    scale -= (scale & 0x400) << 1  # eleven bits, signed
    if precision > _MOST_DIGITS or not 0 <= scale <= precision:
        return _TEXT
    return ColumnType(DataTypes.DECIMAL(precision, scale), Decimal)


def _varchar(modifier: int) -> ColumnType:
    length = modifier - _HEADER
    return _TEXT if modifier < _HEADER else ColumnType(DataTypes.VARCHAR(length), str, _TEXT.source)


def _char(modifier: int) -> ColumnType:
    length = modifier - _HEADER
    return _TEXT if modifier < _HEADER else ColumnType(DataTypes.CHAR(length), str, _TEXT.source)


def _time(modifier: int) -> tuple[LogicalType, Parse]:
    return DataTypes.TIME(_digits(modifier)), datetime.time.fromisoformat


def _timestamp(modifier: int) -> tuple[LogicalType, Parse]:
    return DataTypes.TIMESTAMP(_digits(modifier)), datetime.datetime.fromisoformat


def _instant(modifier: int) -> tuple[LogicalType, Parse]:
    return DataTypes.TIMESTAMP_LTZ(_digits(modifier)), datetime.datetime.fromisoformat


def _date(modifier: int) -> tuple[LogicalType, Parse]:
    return DataTypes.DATE(), datetime.date.fromisoformat


def _digits(modifier: int) -> int:
    return _MICROSECONDS if modifier < 0 else modifier


def _special(parse: Parse, special_dates: SpecialDates) -> Parse:
    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            if special_dates == "null":
                return None
            raise RecordError(
                f"{text!r} has no value in Python, whose years are 1 to 9999; set special_dates to 'null' to read it as NULL"
            ) from None

    return read


def _bool(text: str) -> bool:
    return text == "t"


def _single(text: str) -> float:
    number: float = _FLOAT4.unpack(_FLOAT4.pack(float(text)))[0]
    return number


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


_HEADER: Final = 4
"""Offset of the modifiers of numeric and text types."""
_MOST_DIGITS: Final = 38
_MICROSECONDS: Final = 6
_FLOAT4: Final = struct.Struct("f")
_BOX: Final = 603

_TEXT: Final = ColumnType(DataTypes.STRING(), str, "raw.decode()")
_BIGINT: Final = ColumnType(DataTypes.BIGINT(), int, "int(raw)")

_PLAIN: Final[Mapping[int, ColumnType]] = {
    16: ColumnType(DataTypes.BOOLEAN(), _bool, "raw == b't'"),
    17: ColumnType(DataTypes.BYTES(), _bytes),
    20: _BIGINT,
    21: ColumnType(DataTypes.SMALLINT(), int, "int(raw)"),
    23: ColumnType(DataTypes.INT(), int, "int(raw)"),
    26: _BIGINT,
    28: _BIGINT,
    700: ColumnType(DataTypes.FLOAT(), _single),
    701: ColumnType(DataTypes.DOUBLE(), float, "float(raw)"),
}
_SIZED: Final[Mapping[int, Callable[[int], ColumnType]]] = {1042: _char, 1043: _varchar, 1700: _numeric}
_DATES: Final[Mapping[int, Callable[[int], tuple[LogicalType, Parse]]]] = {
    1082: _date,
    1083: _time,
    1114: _timestamp,
    1184: _instant,
}
_ORDERED: Final = frozenset({16, 17, 20, 21, 23, 26, 700, 701, 1082, 1083, 1114, 1184, 2950})
"""Types with the same order of values in Python and Postgres."""

_ARRAY_OIDS: Final = """
    143:142 199:114 629:628 651:650 719:718 775:774 791:790 1000:16 1001:17 1002:18 1003:19 1005:21 1007:23
    1009:25 1014:1042 1015:1043 1016:20 1017:600 1018:601 1019:602 1020:603 1021:700 1022:701 1027:604
    1028:26 1040:829 1041:869 1115:1114 1182:1082 1183:1083 1185:1184 1187:1186 1231:1700 1270:1266 1561:1560
    1563:1562 2951:2950 3221:3220 3643:3614 3645:3615 3807:3802 3905:3904 3907:3906 3909:3908 3911:3910
    3913:3912 3927:3926 4073:4072
"""
"""Built-in arrays and the types of their elements."""

_ARRAYS: Final[Mapping[int, int]] = {
    int(array): int(element) for array, element in re.findall(r"(\d+):(\d+)", _ARRAY_OIDS)
}
