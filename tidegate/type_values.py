"""Values of logical types: their Python classes, and a conversion that is lossless or refuses.

| type | Python |
|---|---|
| CHAR, VARCHAR, STRING | `str`, counted in characters; a CHAR(n) has exactly n |
| BINARY, VARBINARY, BYTES | `bytes`; a BINARY(n) has exactly n |
| BOOLEAN | `bool` |
| TINYINT, SMALLINT, INT, BIGINT | `int` |
| FLOAT, DOUBLE | `float`; one of FLOAT fits in 32 bits |
| DECIMAL(p, s) | `decimal.Decimal` with s digits behind the point |
| DATE | `datetime.date` |
| TIME(p) | `datetime.time` without a zone; for p > 6 an `int`, nanoseconds since midnight |
| TIMESTAMP(p) | `datetime.datetime` without a zone; for p > 6 an `int`, nanoseconds since 1970-01-01 00:00:00 |
| TIMESTAMP_LTZ(p) | `datetime.datetime` in UTC; for p > 6 an `int`, nanoseconds since 1970-01-01 00:00:00 UTC |
| INTERVAL of years and months | `int`, months |
| INTERVAL of days to seconds | `datetime.timedelta`; with more than 6 fractional digits an `int`, nanoseconds |
| ARRAY | `list` |
| MAP | `dict` |
| MULTISET | `dict` from element to how often it occurs |
| ROW | `tuple` in the order of the fields |
| RAW | an object of the class |
| NULL | `None`, which is also NULL of every other type |

Example:
    >>> from tidegate.logical_types import DataTypes
    >>> converter(DataTypes.DECIMAL(6, 2))(7)
    Decimal('7.00')
    >>> converter(DataTypes.TINYINT())(200)
    Traceback (most recent call last):
        ...
    tidegate.errors.RecordError: value cannot be converted to TINYINT; got 200; expected -128 to 127
"""

from __future__ import annotations

import datetime
import decimal
import operator
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from tidegate.checks import shorten
from tidegate.elements import RowKind
from tidegate.errors import RecordError
from tidegate.logical_types import INTEGERS, IntervalUnit, LogicalType, Root
from tidegate.row import Row

__all__ = ["Converter", "converter", "python_class", "row_converter"]

Converter: TypeAlias = Callable[[Any], Any]
"""Converts a value to the class of its type, or raises a RecordError."""

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_MIDNIGHT: Final = datetime.date(1970, 1, 1)
_DAY_NS: Final = 86_400 * 10**9
_MIN_NS: Final = (datetime.datetime.min - _EPOCH) // _MICROSECOND * 1_000
_MAX_NS: Final = (datetime.datetime.max - _EPOCH) // _MICROSECOND * 1_000 + 999
_UNIT_NS: Final = {
    IntervalUnit.DAY: _DAY_NS,
    IntervalUnit.HOUR: 3_600 * 10**9,
    IntervalUnit.MINUTE: 60 * 10**9,
}
_BITS: Final = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}
_EXACT: Final = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])
_MICROSECONDS: Final = 6
"""The most fractional digits of a second that Python's classes have."""

_CLASSES: Final[dict[Root, type[Any]]] = {
    Root.CHAR: str,
    Root.VARCHAR: str,
    Root.BOOLEAN: bool,
    Root.BINARY: bytes,
    Root.VARBINARY: bytes,
    Root.DECIMAL: decimal.Decimal,
    **dict.fromkeys(INTEGERS, int),
    Root.FLOAT: float,
    Root.DOUBLE: float,
    Root.DATE: datetime.date,
    Root.TIME: datetime.time,
    Root.TIMESTAMP: datetime.datetime,
    Root.TIMESTAMP_LTZ: datetime.datetime,
    Root.INTERVAL_YEAR_MONTH: int,
    Root.INTERVAL_DAY_TIME: datetime.timedelta,
    Root.ARRAY: list,
    Root.MULTISET: dict,
    Root.MAP: dict,
    Root.ROW: tuple,
    Root.RAW: object,
    Root.NULL: type(None),
}


def python_class(logical: LogicalType) -> type[Any]:
    """The class of the values of a type that are not NULL."""
    return int if _in_nanoseconds(logical) else _CLASSES[logical.root]


@cache
def converter(logical: LogicalType) -> Converter:
    """A function that converts a value to the equal value of the type, or refuses it.

    Lossless conversions are: another class with the same value (an int as DOUBLE or DECIMAL, bytearray as BYTES, a datetime of any zone as
    TIMESTAMP_LTZ, a `Row` or a dictionary as ROW). Anything that would round, cut or pad is refused.

    Raises:
        RecordError: by the returned function, if a value is not of the type.
    """
    made = _maker(logical)
    if not logical.nullable:
        expected = f"a value, since the type is {logical}"
        return lambda value: _refuse(logical, None, expected) if value is None else made(value)
    return lambda value: None if value is None else made(value)


def row_converter(names: tuple[str, ...], types: tuple[LogicalType, ...]) -> Converter:
    """A function that converts a row to a tuple of these columns, or refuses it and names the column.

    Raises:
        RecordError: by the returned function, if a row has other columns or a value is not of the type of its column.
    """
    converters = tuple(zip(names, map(converter, types), strict=True))

    def convert(row: Any) -> tuple[Any, ...]:
        values = _row_values(names, row)
        if values is None:
            raise RecordError(
                f"row does not match its type; got {shorten(row)}; expected a tuple of {len(names)}, or a row or dictionary with the "
                f"fields {', '.join(names)}"
            )
        made = []
        for (name, convert_value), value in zip(converters, values, strict=True):
            try:
                made.append(convert_value(value))
            except RecordError as error:
                raise RecordError(f"column {name!r}: {error}") from error
        return tuple(made)

    return convert


def _maker(logical: LogicalType) -> Converter:
    """The converter of values that are not None."""
    match logical.root:
        case Root.CHAR | Root.VARCHAR:
            return _sized(logical, str, "characters", fixed=logical.root is Root.CHAR)
        case Root.BINARY | Root.VARBINARY:
            return _sized(logical, bytes, "bytes", fixed=logical.root is Root.BINARY)
        case Root.BOOLEAN | Root.NULL:
            return _instance(logical)
        case Root.TINYINT | Root.SMALLINT | Root.INT | Root.BIGINT:
            return _integer(logical, 1 << _BITS[logical.root])
        case Root.FLOAT | Root.DOUBLE:
            return _float(logical)
        case Root.DECIMAL:
            return _decimal(logical)
        case Root.DATE:
            return _date(logical)
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return _moment(logical)
        case Root.INTERVAL_YEAR_MONTH:
            return _months(logical)
        case Root.INTERVAL_DAY_TIME:
            return _duration(logical)
        case Root.ARRAY:
            return _array(logical)
        case Root.MAP | Root.MULTISET:
            return _map(logical)
        case Root.ROW:
            return row_converter(
                tuple(field.name for field in logical.fields), tuple(field.type for field in logical.fields)
            )
        case Root.RAW:
            return _raw(logical)


def _refuse(logical: LogicalType, value: Any, expected: str) -> Any:
    raise RecordError(f"value cannot be converted to {logical}; got {shorten(value)}; expected {expected}")


def _instance(logical: LogicalType) -> Converter:
    cls = python_class(logical)
    name = "None" if logical.root is Root.NULL else cls.__name__
    return lambda value: value if isinstance(value, cls) else _refuse(logical, value, name)


def _sized(logical: LogicalType, cls: type[Any], unit: str, *, fixed: bool) -> Converter:
    most, least = logical.precision, logical.precision if fixed else 0
    expected = f"{'exactly' if fixed else 'at most'} {most} {unit} of {cls.__name__}"
    alike = (bytearray, memoryview) if cls is bytes else ()

    def convert(value: Any) -> Any:
        if isinstance(value, alike):
            value = bytes(value)
        if not isinstance(value, cls) or not least <= len(value) <= most:
            _refuse(logical, value, expected)
        return str.__str__(value) if cls is str else bytes(value)  # of a subclass, too

    return convert


def _integer(logical: LogicalType, limit: int) -> Converter:
    def convert(value: Any) -> int:
        try:
            found = operator.index(value)
        except TypeError:
            found = limit
        if isinstance(value, bool) or not -limit <= found < limit:
            _refuse(logical, value, f"{-limit} to {limit - 1}")
        return int(found)

    return convert


def _float(logical: LogicalType) -> Converter:
    single = struct.Struct("f") if logical.root is Root.FLOAT else None

    expected = (
        "a float that 64 bits hold"
        if single is None
        else "a float that 32 bits hold without loss; use DOUBLE"
    )

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            _refuse(logical, value, expected)
        try:
            found = float(value)
            kept = found if single is None else single.unpack(single.pack(found))[0]
        except OverflowError:
            return _refuse(logical, value, expected)
        same = kept == value or value != value  # NaN is kept, though it equals nothing
        return found if same else _refuse(logical, value, expected)

    return convert


def _decimal(logical: LogicalType) -> Converter:
    limit, unit = 10 ** (logical.precision - logical.scale), decimal.Decimal(1).scaleb(-logical.scale)
    expected = (
        f"a Decimal or int of {logical.precision} digits at most, {logical.scale} of them behind the point"
    )

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
            _refuse(logical, value, expected)
        try:
            if -limit < value < limit:
                return _EXACT.add(_EXACT.quantize(decimal.Decimal(value), unit), 0)
        except (decimal.Inexact, decimal.InvalidOperation):
            pass
        return _refuse(logical, value, expected)

    return convert


def _date(logical: LogicalType) -> Converter:
    def convert(value: Any) -> Any:
        return value if type(value) is datetime.date else _refuse(logical, value, "a date")

    return convert


def _in_nanoseconds(logical: LogicalType) -> bool:
    match logical.root:
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return logical.precision > _MICROSECONDS
        case Root.INTERVAL_DAY_TIME:
            return logical.scale > _MICROSECONDS
    return False


def _moment(logical: LogicalType) -> Converter:
    """TIME and TIMESTAMPs: of Python's classes up to microseconds, ints of nanoseconds beyond."""
    cls, local = _CLASSES[logical.root], logical.root is Root.TIMESTAMP_LTZ
    digits, in_ns = logical.precision, _in_nanoseconds(logical)
    step = 10 ** (9 - digits if in_ns else max(0, 6 - digits))
    low, high = (0, _DAY_NS - 1) if logical.root is Root.TIME else (_MIN_NS, _MAX_NS)
    expected = (
        f"a {cls.__name__} {'with' if local else 'without'} a time zone, of {digits} digits of a second at most"
        + (", or an int of nanoseconds" if in_ns else "")
    )

    def convert(value: Any) -> Any:
        if in_ns and type(value) is int:
            return value if low <= value <= high and value % step == 0 else _refuse(logical, value, expected)
        zoned = getattr(value, "tzinfo", None) is not None
        if type(value) is not cls or zoned != local or (not in_ns and value.microsecond % step):
            _refuse(logical, value, expected)
        try:
            # Without a zone `fold` says nothing, and codecs do not keep it.
            value = (value.astimezone(datetime.UTC) if local else value).replace(fold=0)
        except OverflowError:
            _refuse(logical, value, "a moment of the years 1 to 9999 in UTC")
        return _nanoseconds(value) if in_ns else value

    return convert


def _nanoseconds(value: datetime.time | datetime.datetime) -> int:
    """Since midnight, or since 1970."""
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(_MIDNIGHT, value)
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND * 1_000


def _months(logical: LogicalType) -> Converter:
    step = 12 if logical.units and logical.units[1] is IntervalUnit.YEAR else 1
    limit = 12 * 10**logical.precision
    expected = f"an int of months, less than {limit}" + (", whole years" if step == 12 else "")

    def convert(value: Any) -> Any:
        if type(value) is not int or not -limit < value < limit or value % step:
            _refuse(logical, value, expected)
        return value

    return convert


def _duration(logical: LogicalType) -> Converter:
    last = logical.units[1] if logical.units else IntervalUnit.SECOND
    step = _UNIT_NS.get(last, 10 ** (9 - logical.scale))
    limit = 10**logical.precision * _DAY_NS
    in_ns = _in_nanoseconds(logical)
    expected = f"a timedelta of less than {10**logical.precision} days in steps of {step} nanoseconds" + (
        ", or an int of nanoseconds" if in_ns else ""
    )

    def convert(value: Any) -> Any:
        if type(value) is datetime.timedelta:
            found = value // _MICROSECOND * 1_000
        else:
            found = value if in_ns and type(value) is int else limit
        if not -limit < found < limit or found % step:
            _refuse(logical, value, expected)
        return found if in_ns else value

    return convert


def _array(logical: LogicalType) -> Converter:
    item = converter(logical.items[0])

    def convert(value: Any) -> Any:
        return (
            [item(each) for each in value]
            if isinstance(value, list | tuple)
            else _refuse(logical, value, "a list")
        )

    return convert


def _map(logical: LogicalType) -> Converter:
    key = converter(logical.items[0])
    held = converter(logical.items[1]) if logical.root is Root.MAP else _count

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            _refuse(logical, value, "a dict")
        made = {key(name): held(each) for name, each in value.items()}
        if len(made) != len(value):
            _refuse(logical, value, "keys that are different as values of their type")
        return made

    return convert


def _count(value: Any) -> int:
    if type(value) is not int or not 0 < value < 1 << 31:
        raise RecordError(f"count of a MULTISET is invalid; got {shorten(value)}; expected an int from 1 on")
    return value


def _row_values(names: tuple[str, ...], row: Any) -> Any:
    """The values of a row in the order of the names; None if it is not a row of these."""
    match row:
        case Row():
            if row.get_row_kind() is not RowKind.INSERT or (row.names and set(row.names) != set(names)):
                return None
            row = row.get_fields_by_names(names)
        case Mapping():
            row = [row[name] for name in names] if row.keys() == set(names) else None
        case tuple() | list():
            pass
        case _:
            return None
    return row if row is not None and len(row) == len(names) else None


def _raw(logical: LogicalType) -> Converter:
    name = logical.raw[0]

    def convert(value: Any) -> Any:
        classes = (f"{cls.__module__}.{cls.__qualname__}" for cls in type(value).__mro__)
        return value if name in classes else _refuse(logical, value, f"an object of {name}")

    return convert
