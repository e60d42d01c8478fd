"""Mapping between logical types of tables and type descriptions of streams, where both hold the same values.

Example:
    >>> from tidegate.logical_types import DataTypes
    >>> print(type_information(DataTypes.ARRAY(DataTypes.BIGINT().not_null()).not_null()))
    list<long>
    >>> logical_type(Types.TUPLE([Types.STRING(), Types.LONG()]))
    ROW<`f0` STRING NOT NULL, `f1` BIGINT NOT NULL> NOT NULL
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import ConfigError
from tidegate.logical_types import DataTypes, Field, LogicalType, Root
from tidegate.type_values import python_class
from tidegate.types import Kind, TypeInformation, Types, numbered

__all__ = ["logical_type", "type_information"]

_KINDS: Final = {
    Root.CHAR: Kind.STRING,
    Root.VARCHAR: Kind.STRING,
    Root.BOOLEAN: Kind.BOOLEAN,
    Root.BINARY: Kind.BYTES,
    Root.VARBINARY: Kind.BYTES,
    Root.DECIMAL: Kind.DECIMAL,
    Root.TINYINT: Kind.BYTE,
    Root.SMALLINT: Kind.SHORT,
    Root.INT: Kind.INT,
    Root.BIGINT: Kind.LONG,
    Root.FLOAT: Kind.FLOAT,
    Root.DOUBLE: Kind.DOUBLE,
    Root.DATE: Kind.DATE,
    Root.TIME: Kind.TIME,
    Root.TIMESTAMP: Kind.TIMESTAMP,
    Root.TIMESTAMP_LTZ: Kind.INSTANT,
    Root.INTERVAL_YEAR_MONTH: Kind.INT,
    Root.INTERVAL_DAY_TIME: Kind.DURATION,
}
_TYPES: Final = {
    Kind.BOOLEAN: DataTypes.BOOLEAN(),
    Kind.BYTE: DataTypes.TINYINT(),
    Kind.SHORT: DataTypes.SMALLINT(),
    Kind.INT: DataTypes.INT(),
    Kind.LONG: DataTypes.BIGINT(),
    Kind.DOUBLE: DataTypes.DOUBLE(),
    Kind.STRING: DataTypes.STRING(),
    Kind.BYTES: DataTypes.BYTES(),
    Kind.DATE: DataTypes.DATE(),
    Kind.TIME: DataTypes.TIME(6),
    Kind.TIMESTAMP: DataTypes.TIMESTAMP(6),
    Kind.INSTANT: DataTypes.TIMESTAMP_LTZ(6),
}
_INSTEAD: Final = {
    Kind.BIG_INT: "DECIMAL(38, 0), or BIGINT",
    Kind.DECIMAL: "DECIMAL(p, s), with the digits of the values",
    Kind.FLOAT: "DOUBLE, since FLOAT has only 32 bits",
    Kind.DATETIME: "TIMESTAMP(6) without a time zone, or TIMESTAMP_LTZ(6)",
    Kind.DURATION: "INTERVAL DAY(6) TO SECOND(6)",
    Kind.SET: "ARRAY or MULTISET",
    Kind.FROZENSET: "ARRAY or MULTISET",
    Kind.VARIADIC: "ARRAY",
    Kind.UUID: "CHAR(36) or BINARY(16)",
    Kind.ENUM: "STRING",
}


def type_information(logical: LogicalType) -> TypeInformation:
    """The type description that holds every value of a logical type unchanged, for state and exchanges.

    A ROW becomes a tuple, so it loses its names.

    Raises:
        ConfigError: no description holds its values: RAW and NULL.
    """
    found = _described(logical)
    return Types.OPTIONAL(found) if logical.nullable else found


def logical_type(info: TypeInformation) -> LogicalType:
    """The smallest logical type that holds every value of a description; its values may be of another class (`Row`, records).

    Raises:
        ConfigError: no logical type holds them all; the message says which to declare.
    """
    match info.kind:
        case Kind.OPTIONAL:
            return logical_type(info.items[0]).as_nullable()
        case Kind.LIST:
            found = DataTypes.ARRAY(logical_type(info.items[0]))
        case Kind.MAP:
            key, value = map(logical_type, info.items)
            found = DataTypes.MAP(key, value)
        case Kind.ROW:
            # Each field of a Row may be None.
            found = DataTypes.ROW(_fields(info, [logical_type(item).as_nullable() for item in info.items]))
        case Kind.TUPLE | Kind.RECORD:
            found = DataTypes.ROW(_fields(info, list(map(logical_type, info.items))))
        case kind if kind in _TYPES:
            found = _TYPES[kind]
        case kind:
            raise ConfigError(
                f"no type of a table holds exactly the values of {info}; declare the type of the column"
                + (f", such as {_INSTEAD[kind]}" if kind in _INSTEAD else "")
            )
    return found.not_null()


def _fields(info: TypeInformation, types: list[LogicalType]) -> list[Field]:
    return list(map(Field, info.names or numbered(len(types)), types))


def _described(logical: LogicalType) -> TypeInformation:
    match logical.root:
        case Root.ARRAY:
            return Types.LIST(type_information(logical.items[0]))
        case Root.MAP:
            key, value = map(type_information, logical.items)
            return Types.MAP(key, value)
        case Root.MULTISET:
            return Types.MAP(type_information(logical.items[0]), Types.INT())
        case Root.ROW:
            return Types.TUPLE([type_information(field.type) for field in logical.fields])
        case Root.RAW | Root.NULL:
            raise ConfigError(
                f"values of {logical} have no codec; expected a column of another type; cast it"
            )
    kind = _KINDS[logical.root]
    # Nanoseconds of the years 1 to 9999 need more than 64 bits.
    in_nanoseconds = python_class(logical) is int and kind in (
        Kind.TIME,
        Kind.TIMESTAMP,
        Kind.INSTANT,
        Kind.DURATION,
    )
    return TypeInformation(Kind.BIG_INT if in_nanoseconds else kind)
