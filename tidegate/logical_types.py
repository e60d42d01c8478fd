"""Logical types of table columns: Flink's SQL types with nullability, as comparable descriptions.

A logical type says which values a column may hold; `tidegate.type_values` checks values against it, `tidegate.type_text`
reads the SQL form that `str` writes. Two types are equal if they hold the same values, nullability included.

Example:
    >>> DataTypes.DECIMAL(10, 2).not_null()
    DECIMAL(10, 2) NOT NULL
    >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING()))])
    ROW<`id` BIGINT, `tags` ARRAY<STRING>>
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from tidegate.errors import ConfigError

__all__ = [
    "CHARACTERS",
    "INTEGERS",
    "MAX_LENGTH",
    "NUMBERS",
    "TIMESTAMPS",
    "DataTypes",
    "Field",
    "IntervalUnit",
    "LogicalType",
    "Root",
    "quoted",
    "quoted_name",
]

# DataTypes carries PyFlink's names.
# ruff: noqa: N802

MAX_LENGTH: Final = 2**31 - 1
"""The length of STRING and BYTES."""


class Root(StrEnum):
    """The kinds of types, by the first words of their SQL form."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    INTERVAL_YEAR_MONTH = "INTERVAL YEAR TO MONTH"
    INTERVAL_DAY_TIME = "INTERVAL DAY TO SECOND"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    RAW = "RAW"
    NULL = "NULL"


INTEGERS: Final = frozenset({Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT})
NUMBERS: Final = INTEGERS | {Root.DECIMAL, Root.FLOAT, Root.DOUBLE}
CHARACTERS: Final = frozenset({Root.CHAR, Root.VARCHAR})
TIMESTAMPS: Final = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})

_COLLECTIONS: Final = frozenset({Root.ARRAY, Root.MULTISET, Root.MAP})
_PRECISIONS: Final = {
    Root.CHAR: ("length", 1, MAX_LENGTH),
    Root.VARCHAR: ("length", 1, MAX_LENGTH),
    Root.BINARY: ("length", 1, MAX_LENGTH),
    Root.VARBINARY: ("length", 1, MAX_LENGTH),
    Root.DECIMAL: ("precision", 1, 38),
    Root.TIME: ("precision", 0, 9),
    Root.TIMESTAMP: ("precision", 0, 9),
    Root.TIMESTAMP_LTZ: ("precision", 0, 9),
    Root.INTERVAL_YEAR_MONTH: ("precision of years", 1, 4),
    Root.INTERVAL_DAY_TIME: ("precision of days", 1, 6),
}
"""The name of a type's parameter, and its smallest and largest value."""


class IntervalUnit(StrEnum):
    """The fields of an interval, from the largest to the smallest."""

    YEAR = "YEAR"
    MONTH = "MONTH"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


_UNITS: Final = tuple(IntervalUnit)
_UNITS_OF: Final = {Root.INTERVAL_YEAR_MONTH: _UNITS[:2], Root.INTERVAL_DAY_TIME: _UNITS[2:]}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a ROW."""

    name: str
    type: LogicalType
    description: str = ""

    def __str__(self) -> str:
        return f"{quoted_name(self.name)} {self.type}" + (
            f" {quoted(self.description)}" if self.description else ""
        )


@dataclass(frozen=True, slots=True, repr=False)
class LogicalType:
    """One type.

    Args:
        root: Its kind.
        nullable: Whether NULL, in Python None, is one of its values.
        precision: The length of characters and bytes, the digits of a DECIMAL, the fractional digits of a second of TIME and
            TIMESTAMPs, the digits of the years or days of an interval.
        scale: The fractional digits of a DECIMAL, or of the seconds of an interval.
        items: The element of an ARRAY or MULTISET, the key and the value of a MAP.
        fields: The fields of a ROW.
        units: The first and the last field of an interval.
        raw: The class of a RAW value, and its serializer's snapshot.

    Raises:
        ConfigError: a number is out of range, a field name repeats, or the parts are invalid for the kind.
    """

    root: Root
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    items: tuple[LogicalType, ...] = ()
    fields: tuple[Field, ...] = ()
    units: tuple[IntervalUnit, IntervalUnit] | None = None
    raw: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        _check(self)

    def not_null(self) -> LogicalType:
        """The same without NULL."""
        return replace(self, nullable=False)

    def as_nullable(self) -> LogicalType:
        """The same with NULL."""
        return replace(self, nullable=True)

    def same_kind(self, other: LogicalType) -> bool:
        """Whether both are equal but for their own nullability."""
        return self.as_nullable() == other.as_nullable()

    def walk(self) -> Iterator[LogicalType]:
        """This type and every type inside it."""
        yield self
        for inner in (*self.items, *(field.type for field in self.fields)):
            yield from inner.walk()

    def __str__(self) -> str:
        return _name(self) + ("" if self.nullable else " NOT NULL")

    __repr__ = __str__


def quoted(text: str) -> str:
    """A text as a literal of SQL.

    Example:
        >>> print(quoted("it's"))
        'it''s'
    """
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    """A name of a column or field, quoted for SQL.

    Example:
        >>> print(quoted_name("order"))
        `order`
    """
    return "`" + name.replace("`", "``") + "`"


class DataTypes:
    """PyFlink's names for logical types."""

    @staticmethod
    def NULL() -> LogicalType:
        """Only NULL: the type of an untyped NULL literal."""
        return LogicalType(Root.NULL)

    @staticmethod
    def CHAR(length: int = 1, nullable: bool = True) -> LogicalType:
        """Strings of exactly `length` characters."""
        return LogicalType(Root.CHAR, nullable, length)

    @staticmethod
    def VARCHAR(length: int = 1, nullable: bool = True) -> LogicalType:
        """Strings of at most `length` characters."""
        return LogicalType(Root.VARCHAR, nullable, length)

    @staticmethod
    def STRING(nullable: bool = True) -> LogicalType:
        """Strings of any length."""
        return LogicalType(Root.VARCHAR, nullable, MAX_LENGTH)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> LogicalType:
        """TRUE and FALSE."""
        return LogicalType(Root.BOOLEAN, nullable)

    @staticmethod
    def BINARY(length: int = 1, nullable: bool = True) -> LogicalType:
        """Exactly `length` bytes."""
        return LogicalType(Root.BINARY, nullable, length)

    @staticmethod
    def VARBINARY(length: int = 1, nullable: bool = True) -> LogicalType:
        """At most `length` bytes."""
        return LogicalType(Root.VARBINARY, nullable, length)

    @staticmethod
    def BYTES(nullable: bool = True) -> LogicalType:
        """Bytes of any length."""
        return LogicalType(Root.VARBINARY, nullable, MAX_LENGTH)

    @staticmethod
    def DECIMAL(precision: int = 10, scale: int = 0, nullable: bool = True) -> LogicalType:
        """Decimal numbers of `precision` digits, `scale` of them behind the point."""
        return LogicalType(Root.DECIMAL, nullable, precision, scale)

    @staticmethod
    def TINYINT(nullable: bool = True) -> LogicalType:
        """Integers of 8 bits."""
        return LogicalType(Root.TINYINT, nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> LogicalType:
        """Integers of 16 bits."""
        return LogicalType(Root.SMALLINT, nullable)

    @staticmethod
    def INT(nullable: bool = True) -> LogicalType:
        """Integers of 32 bits."""
        return LogicalType(Root.INT, nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> LogicalType:
        """Integers of 64 bits."""
        return LogicalType(Root.BIGINT, nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> LogicalType:
        """Floating-point numbers of 32 bits."""
        return LogicalType(Root.FLOAT, nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> LogicalType:
        """Floating-point numbers of 64 bits."""
        return LogicalType(Root.DOUBLE, nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> LogicalType:
        """Dates."""
        return LogicalType(Root.DATE, nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> LogicalType:
        """Times of day without a time zone."""
        return LogicalType(Root.TIME, nullable, precision)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> LogicalType:
        """Date and time without a time zone."""
        return LogicalType(Root.TIMESTAMP, nullable, precision)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LogicalType:
        """Points in time, shown in the time zone of the session."""
        return LogicalType(Root.TIMESTAMP_LTZ, nullable, precision)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> LogicalType:
        """The long name of TIMESTAMP_LTZ."""
        return DataTypes.TIMESTAMP_LTZ(precision, nullable)

    @staticmethod
    def YEAR(precision: int = 2) -> tuple[IntervalUnit, int]:
        """Years of an interval."""
        return IntervalUnit.YEAR, precision

    @staticmethod
    def MONTH() -> tuple[IntervalUnit, int]:
        """Months of an interval."""
        return IntervalUnit.MONTH, 2

    @staticmethod
    def DAY(precision: int = 2) -> tuple[IntervalUnit, int]:
        """Days of an interval."""
        return IntervalUnit.DAY, precision

    @staticmethod
    def HOUR() -> tuple[IntervalUnit, int]:
        """Hours of an interval."""
        return IntervalUnit.HOUR, 2

    @staticmethod
    def MINUTE() -> tuple[IntervalUnit, int]:
        """Minutes of an interval."""
        return IntervalUnit.MINUTE, 2

    @staticmethod
    def SECOND(precision: int = 6) -> tuple[IntervalUnit, int]:
        """Seconds of an interval."""
        return IntervalUnit.SECOND, precision

    @staticmethod
    def INTERVAL(
        upper: tuple[IntervalUnit, int], lower: tuple[IntervalUnit, int] | None = None, nullable: bool = True
    ) -> LogicalType:
        """Durations between two fields, such as `INTERVAL(DAY(), SECOND(3))`, or of one."""
        (first, digits), (last, fraction) = upper, lower or upper
        precision = digits if first in (IntervalUnit.YEAR, IntervalUnit.DAY) else 2
        if first in _UNITS_OF[Root.INTERVAL_YEAR_MONTH]:
            return LogicalType(Root.INTERVAL_YEAR_MONTH, nullable, precision, units=(first, last))
        scale = fraction if last is IntervalUnit.SECOND else 6
        return LogicalType(Root.INTERVAL_DAY_TIME, nullable, precision, scale, units=(first, last))

    @staticmethod
    def ARRAY(element_type: LogicalType, nullable: bool = True) -> LogicalType:
        """Lists of one type."""
        return LogicalType(Root.ARRAY, nullable, items=(element_type,))

    @staticmethod
    def MULTISET(element_type: LogicalType, nullable: bool = True) -> LogicalType:
        """Elements of one type, each with how often it occurs."""
        return LogicalType(Root.MULTISET, nullable, items=(element_type,))

    @staticmethod
    def MAP(key_type: LogicalType, value_type: LogicalType, nullable: bool = True) -> LogicalType:
        """Maps from one type to another."""
        return LogicalType(Root.MAP, nullable, items=(key_type, value_type))

    @staticmethod
    def ROW(row_fields: Sequence[Field], nullable: bool = True) -> LogicalType:
        """Rows of these fields."""
        return LogicalType(Root.ROW, nullable, fields=tuple(row_fields))

    @staticmethod
    def FIELD(name: str, data_type: LogicalType, description: str = "") -> Field:
        """A field of a ROW."""
        return Field(name, data_type, description)

    @staticmethod
    def RAW(cls: str, snapshot: str = "pickle", nullable: bool = True) -> LogicalType:
        """Objects of a class, `module.name`, that SQL only passes on; the snapshot describes its serializer."""
        return LogicalType(Root.RAW, nullable, raw=(cls, snapshot))


def _name(type: LogicalType) -> str:
    """The SQL form without nullability."""
    match type.root:
        case Root.VARCHAR if type.precision == MAX_LENGTH:
            return "STRING"
        case Root.VARBINARY if type.precision == MAX_LENGTH:
            return "BYTES"
        case Root.DECIMAL:
            return f"DECIMAL({type.precision}, {type.scale})"
        case Root.INTERVAL_YEAR_MONTH | Root.INTERVAL_DAY_TIME:
            return _interval_name(type)
        case Root.ROW:
            return f"ROW<{', '.join(map(str, type.fields))}>"
        case Root.RAW:
            return f"RAW({', '.join(map(quoted, type.raw))})"
    if type.root in _PRECISIONS:
        return f"{type.root}({type.precision})"
    return f"{type.root}<{', '.join(map(str, type.items))}>" if type.items else str(type.root)


def _interval_name(type: LogicalType) -> str:
    assert type.units is not None  # checked when the type was made
    first, last = type.units
    digits = {
        IntervalUnit.YEAR: type.precision,
        IntervalUnit.DAY: type.precision,
        IntervalUnit.SECOND: type.scale,
    }
    shown = [
        f"{unit}({digits[unit]})" if unit in digits else str(unit) for unit in dict.fromkeys((first, last))
    ]
    return f"INTERVAL {' TO '.join(shown)}"


def _check(type: LogicalType) -> None:
    root = type.root
    if root in _PRECISIONS:
        what, low, high = _PRECISIONS[root]
        _check_range(f"{what} of {root}", type.precision, low, high)
    if root is Root.DECIMAL:
        _check_range(f"scale of DECIMAL({type.precision})", type.scale, 0, type.precision)
    if root in _UNITS_OF:
        _check_interval(type)
    if root in _COLLECTIONS and len(type.items) != (2 if root is Root.MAP else 1):
        raise ConfigError(
            f"{root} has {len(type.items)} types inside; expected {2 if root is Root.MAP else 1}"
        )
    if root in (Root.MAP, Root.MULTISET):
        unhashable = next((each for each in type.items[0].walk() if each.root in _COLLECTIONS), None)
        if unhashable is not None:
            raise ConfigError(
                f"{'key' if root is Root.MAP else 'element'} of {root} is {type.items[0]}; expected a type without "
                f"{unhashable.root}, whose values cannot be keys of a dictionary; use a ROW or a STRING"
            )
    names = [field.name for field in type.fields]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(
            f"field {repeated!r} occurs more than once in a ROW; got {names}; expected different names"
        )
    if "" in names:
        raise ConfigError(f"a field of a ROW has no name; got {names}; expected a name for each")
    if root is Root.NULL and not type.nullable:
        raise ConfigError("NULL NOT NULL has no values; expected NULL, or a type that has values")


def _check_interval(type: LogicalType) -> None:
    allowed = _UNITS_OF[type.root]
    first, last = type.units or (allowed[0], allowed[-1])
    if first not in allowed or last not in allowed or allowed.index(first) > allowed.index(last):
        raise ConfigError(
            f"interval from {first} to {last} does not exist; expected YEAR and MONTH, or two of DAY, HOUR, MINUTE and "
            "SECOND, the larger one first"
        )
    object.__setattr__(type, "units", (first, last))
    _check_range("precision of seconds", type.scale, 0, 9)


def _check_range(what: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{what} is out of range; got {value!r}; expected {low} to {high}")
