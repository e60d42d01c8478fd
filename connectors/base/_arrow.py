"""Mapping between logical types of tables and types of Arrow.

`arrow_field` keeps the logical type in the metadata of the field, so `logical_field` answers exactly it, also where Arrow has
one type for several (CHAR and STRING). Without metadata it answers the smallest logical type that holds every value.

Example:
    >>> from tidegate.logical_types import DataTypes
    >>> arrow_type(DataTypes.TIMESTAMP_LTZ(3))
    TimestampType(timestamp[ms, tz=UTC])
    >>> logical_field(arrow_field("code", DataTypes.CHAR(3)))
    CHAR(3)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as at

from tidegate.errors import ConfigError
from tidegate.logical_types import DataTypes, Field, LogicalType, Root
from tidegate.type_text import parse_type

__all__ = ["arrow_field", "arrow_schema", "arrow_type", "logical_field", "logical_type"]

_METADATA: Final = b"tidegate.type"
_UNITS: Final = ("s", "ms", "us", "ns")
_DIGITS: Final = {unit: 3 * place for place, unit in enumerate(_UNITS)}
_PLAIN: Final[dict[Root, pa.DataType]] = {
    Root.CHAR: pa.string(),
    Root.VARCHAR: pa.string(),
    Root.VARBINARY: pa.binary(),
    Root.BOOLEAN: pa.bool_(),
    Root.TINYINT: pa.int8(),
    Root.SMALLINT: pa.int16(),
    Root.INT: pa.int32(),
    Root.BIGINT: pa.int64(),
    Root.FLOAT: pa.float32(),
    Root.DOUBLE: pa.float64(),
    Root.DATE: pa.date32(),
    Root.INTERVAL_YEAR_MONTH: pa.int32(),
    Root.NULL: pa.null(),
}
_LOGICAL: Final[dict[pa.DataType, LogicalType]] = {
    pa.null(): DataTypes.NULL(),
    pa.bool_(): DataTypes.BOOLEAN(),
    pa.int8(): DataTypes.TINYINT(),
    pa.int16(): DataTypes.SMALLINT(),
    pa.int32(): DataTypes.INT(),
    pa.int64(): DataTypes.BIGINT(),
    pa.uint8(): DataTypes.SMALLINT(),
    pa.uint16(): DataTypes.INT(),
    pa.uint32(): DataTypes.BIGINT(),
    pa.uint64(): DataTypes.DECIMAL(20, 0),
    pa.float16(): DataTypes.FLOAT(),
    pa.float32(): DataTypes.FLOAT(),
    pa.float64(): DataTypes.DOUBLE(),
    pa.string(): DataTypes.STRING(),
    pa.large_string(): DataTypes.STRING(),
    pa.string_view(): DataTypes.STRING(),
    pa.binary(): DataTypes.BYTES(),
    pa.large_binary(): DataTypes.BYTES(),
    pa.binary_view(): DataTypes.BYTES(),
    pa.date32(): DataTypes.DATE(),
}


def arrow_schema(fields: Iterable[tuple[str, LogicalType]]) -> pa.Schema:
    """The schema of Arrow for columns; raises as `arrow_type` does."""
    return pa.schema([arrow_field(name, type) for name, type in fields])


def arrow_field(name: str, type: LogicalType) -> pa.Field:
    """The field of Arrow for a column, with its logical type in the metadata; raises as `arrow_type` does."""
    return pa.field(name, arrow_type(type), type.nullable, {_METADATA: str(type)})


def arrow_type(type: LogicalType) -> pa.DataType:
    """The type of Arrow that holds the values of a logical type.

    Arrow refuses a value that is beyond it when it is converted: nanoseconds outside the years 1677 to 2262, a NULL as a key.

    Raises:
        ConfigError: there is none: RAW, and intervals whose nanoseconds need more than 64 bits.
    """
    match type.root:
        case root if root in _PLAIN:
            return _PLAIN[root]
        case Root.BINARY:
            return pa.binary(type.precision)
        case Root.DECIMAL:
            return pa.decimal128(type.precision, type.scale)
        case Root.TIME:
            unit = _unit(type.precision)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        case Root.TIMESTAMP:
            return pa.timestamp(_unit(type.precision))
        case Root.TIMESTAMP_LTZ:
            return pa.timestamp(_unit(type.precision), "UTC")
        case Root.INTERVAL_DAY_TIME if type.scale <= 6 or type.precision <= 5:
            return pa.duration(_unit(type.scale))
        case Root.ARRAY:
            return pa.list_(arrow_field("item", type.items[0]))
        case Root.MAP:
            return pa.map_(arrow_type(type.items[0]), arrow_field("value", type.items[1]))
        case Root.MULTISET:
            return pa.map_(arrow_type(type.items[0]), pa.field("value", pa.int32(), False))
        case Root.ROW:
            return pa.struct([arrow_field(field.name, field.type) for field in type.fields])
    raise ConfigError(f"no type of Arrow holds the values of {type}; expected another type; cast the column")


def logical_field(field: pa.Field) -> LogicalType:
    """The logical type of a field: the one that it was made of, else that of its type and nullability.

    Raises:
        ConfigError: no logical type holds the values of the type.
    """
    kept = (field.metadata or {}).get(_METADATA)
    if kept is not None:
        found = parse_type(kept.decode())
        # Another program may have cast the column and kept the metadata.
        if arrow_type(found) == field.type:
            return found if field.nullable == found.nullable else found.as_nullable()
    found = logical_type(field.type)
    return found if field.nullable or found.root is Root.NULL else found.not_null()


def logical_type(type: pa.DataType) -> LogicalType:
    """The smallest logical type that holds every value of a type of Arrow; nullable.

    Raises:
        ConfigError: there is none.
    """
    if type in _LOGICAL:
        return _LOGICAL[type]
    if at.is_fixed_size_binary(type) and type.byte_width:
        return DataTypes.BINARY(type.byte_width)
    if at.is_decimal(type) and type.precision <= 38 and 0 <= type.scale <= type.precision:
        return DataTypes.DECIMAL(type.precision, type.scale)
    if at.is_time(type):
        return DataTypes.TIME(_DIGITS[type.unit])
    if at.is_timestamp(type):
        digits = _DIGITS[type.unit]
        return DataTypes.TIMESTAMP(digits) if type.tz is None else DataTypes.TIMESTAMP_LTZ(digits)
    if at.is_dictionary(type):
        return logical_type(type.value_type)
    return _nested(type)


def _nested(type: pa.DataType) -> LogicalType:
    if at.is_list(type) or at.is_large_list(type) or at.is_fixed_size_list(type):
        return DataTypes.ARRAY(logical_field(type.value_field))
    if at.is_map(type):
        return DataTypes.MAP(logical_field(type.key_field), logical_field(type.item_field))
    if at.is_struct(type):
        return DataTypes.ROW([Field(field.name, logical_field(field)) for field in type])
    raise ConfigError(f"no type of a table holds the values of Arrow's {type}; cast the column")


def _unit(digits: int) -> Any:
    return _UNITS[(digits + 2) // 3]
