"""Mapping between Arrow types and logical types that hold the same values; other types are refused.

If an Arrow type is less specific than the logical type, such as without the length of a VARCHAR, the metadata of the field
has the SQL form, so that `row_type(schema(...))` returns the original type.

Example:
    >>> from tidegate.logical_types import DataTypes
    >>> orders = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT().not_null()), DataTypes.FIELD("user", DataTypes.VARCHAR(9))])
    >>> [str(field.type) for field in schema(orders)], row_type(schema(orders)) == orders.not_null()
    (['int64', 'string'], True)
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tidegate.arrow_rows import ArrowRows
from tidegate.errors import ConfigError
from tidegate.logical_types import DataTypes, Field, LogicalType, Root
from tidegate.type_mapping import logical_type
from tidegate.type_text import parse_type
from tidegate.types import Kind, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_type", "carries", "logical_type_of", "row_type", "schema"]

_SQL: Final = b"tidegate.type"
_UNITS: Final = {"s": 0, "ms": 3, "us": 6}
"""Arrow's time units that Python's times represent exactly, with their fractional digits of a second."""
_FORMS: Final = {Kind.ROW: "row", Kind.TUPLE: "tuple"}


def schema(row: LogicalType) -> pa.Schema:
    """The Arrow schema of a ROW.

    Raises:
        ConfigError: the type is not a ROW, or no Arrow type holds exactly the values of a field.
    """
    import pyarrow as pa

    if row.root is not Root.ROW:
        raise ConfigError(f"the type of an Arrow schema is {row}; expected a ROW; wrap it in a ROW")
    return pa.schema([_field(field.name, field.type) for field in row.fields])


def row_type(schema: pa.Schema) -> LogicalType:
    """The ROW of a schema's columns.

    Raises:
        ConfigError: no logical type holds exactly the values of a column, or names repeat.
    """
    return DataTypes.ROW([Field(field.name, _type_of(field)) for field in schema], nullable=False)


def arrow_type(logical: LogicalType, where: str = "type") -> pa.DataType:
    """The Arrow type with exactly the values of a logical type, except for limits of length and digits.

    Raises:
        ConfigError: there is no such type.
    """
    import pyarrow as pa

    match logical.root:
        case Root.ARRAY:
            return pa.list_(_field("item", logical.items[0], where))
        case Root.MAP | Root.MULTISET:
            count = DataTypes.INT(nullable=False)
            key, value = (*logical.items, count)[:2]
            return pa.map_(_field("key", key.not_null(), where), _field("value", value, where))
        case Root.ROW:
            return pa.struct([_field(field.name, field.type, where) for field in logical.fields])
        case Root.BINARY:
            return pa.binary(logical.precision)
        case Root.DECIMAL:
            return pa.decimal128(logical.precision, logical.scale)
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ | Root.INTERVAL_DAY_TIME:
            return _time(logical, where)
        case Root.RAW:
            raise ConfigError(
                f"{where} is {logical}, which has no Arrow type; expected another type; cast it"
            )
    return pa.type_for_alias(_ALIASES[logical.root])


def logical_type_of(found: pa.DataType, nullable: bool = True, where: str = "type") -> LogicalType:
    """The logical type with every value of an Arrow type, as in rows of a batch.

    Raises:
        ConfigError: there is no such type.
    """
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(found):
        return logical_type_of(found.value_type, nullable, where)
    if kinds.is_list(found) or kinds.is_large_list(found) or kinds.is_fixed_size_list(found):
        return DataTypes.ARRAY(_type_of(found.value_field, where), nullable)
    if kinds.is_map(found):
        key, value = _type_of(found.key_field, where), _type_of(found.item_field, where)
        return DataTypes.MAP(key, value, nullable)
    if kinds.is_struct(found):
        return DataTypes.ROW([Field(each.name, _type_of(each, where)) for each in found], nullable)
    if kinds.is_fixed_size_binary(found) and found.byte_width:
        return DataTypes.BINARY(found.byte_width, nullable)
    if kinds.is_decimal128(found) and 0 <= found.scale <= found.precision:
        return DataTypes.DECIMAL(found.precision, found.scale, nullable)
    if kinds.is_time(found) or kinds.is_timestamp(found) or kinds.is_duration(found):
        return _time_of(found, nullable, where)
    root = _ROOTS.get(str(found))
    if root is None:
        raise ConfigError(
            f"{where} is of the Arrow type {found}, which has no logical type; expected numbers, strings, bytes, "
            "times, lists, maps or structs; cast it"
        )
    length = 2**31 - 1 if root in (Root.VARCHAR, Root.VARBINARY) else 0
    return LogicalType(root, nullable or root is Root.NULL, length)


def carries(info: TypeInformation, rows: ArrowRows) -> bool:
    """Whether columns can only hold values of a type, so that no row has to be checked."""
    wanted = _flat(info)
    if wanted is None or rows.form != _FORMS.get(info.kind) or len(wanted) != len(rows.names):
        return False
    if rows.form == "row" and tuple(rows.names) != info.names:
        return False
    columns = rows.record_batch.columns
    return all(
        each.nullable >= (column.null_count > 0) and _same(column.type, each)
        for column, each in zip(columns, wanted, strict=True)
    )


@lru_cache(maxsize=256)
def _flat(info: TypeInformation) -> tuple[LogicalType, ...] | None:
    """The field types of rows or tuples that are not nested."""
    if info.kind not in _FORMS:
        return None
    try:
        fields = tuple(field.type for field in logical_type(info).fields)
    except ConfigError:
        return None
    return None if any(each.items or each.fields for each in fields) else fields


def _same(found: pa.DataType, wanted: LogicalType) -> bool:
    try:
        return logical_type_of(found) == wanted.as_nullable()
    except ConfigError:
        return False


def _field(name: str, logical: LogicalType, where: str = "") -> pa.Field:
    import pyarrow as pa

    where = f"{where}, field {name!r}" if where else f"column {name!r}"
    found = arrow_type(logical, where)
    said = (
        None if logical_type_of(found, logical.nullable, where) == logical else {_SQL: str(logical).encode()}
    )
    return pa.field(name, found, logical.nullable, said)


def _type_of(field: pa.Field, where: str = "") -> LogicalType:
    where = f"{where}, field {field.name!r}" if where else f"column {field.name!r}"
    said = (field.metadata or {}).get(_SQL)
    if said is not None:
        declared = parse_type(said.decode())
        # The metadata may be outdated: a program may change the column and keep it.
        if arrow_type(declared, where) == field.type and declared.nullable == field.nullable:
            return declared
    return logical_type_of(field.type, field.nullable, where)


def _time(logical: LogicalType, where: str) -> pa.DataType:
    import pyarrow as pa

    digits = logical.scale if logical.root is Root.INTERVAL_DAY_TIME else logical.precision
    unit = next((unit for unit, most in _UNITS.items() if digits <= most), None)
    if unit is None:
        raise ConfigError(
            f"{where} is {logical}, whose values cannot be read from Arrow exactly; expected at most 6 fractional digits of "
            "a second; cast it"
        )
    match logical.root:
        case Root.TIME:
            return pa.time64(unit) if unit == "us" else pa.time32(unit)
        case Root.TIMESTAMP:
            return pa.timestamp(unit)
        case Root.TIMESTAMP_LTZ:
            return pa.timestamp(unit, "UTC")
    return pa.duration(unit)


def _time_of(found: pa.DataType, nullable: bool, where: str) -> LogicalType:
    import pyarrow as pa

    digits, zone = _UNITS.get(found.unit), getattr(found, "tz", None)
    if digits is None or zone not in (None, "UTC", "+00:00"):
        raise ConfigError(
            f"{where} is of the Arrow type {found}, which no logical type represents exactly; expected microseconds or "
            "coarser, in UTC or without a time zone; cast it"
        )
    if pa.types.is_time(found):
        return DataTypes.TIME(digits, nullable)
    if pa.types.is_duration(found):
        return DataTypes.INTERVAL(DataTypes.DAY(6), DataTypes.SECOND(digits), nullable)
    return (
        DataTypes.TIMESTAMP(digits, nullable) if zone is None else DataTypes.TIMESTAMP_LTZ(digits, nullable)
    )


_ALIASES: Final[dict[Root, str]] = {
    Root.CHAR: "string",
    Root.VARCHAR: "string",
    Root.BOOLEAN: "bool",
    Root.VARBINARY: "binary",
    Root.TINYINT: "int8",
    Root.SMALLINT: "int16",
    Root.INT: "int32",
    Root.BIGINT: "int64",
    Root.FLOAT: "float32",
    Root.DOUBLE: "float64",
    Root.DATE: "date32",
    Root.INTERVAL_YEAR_MONTH: "int32",
    Root.NULL: "null",
}
_ROOTS: Final[dict[str, Root]] = {
    "bool": Root.BOOLEAN,
    "int8": Root.TINYINT,
    "int16": Root.SMALLINT,
    "uint8": Root.SMALLINT,
    "int32": Root.INT,
    "uint16": Root.INT,
    "int64": Root.BIGINT,
    "uint32": Root.BIGINT,
    "halffloat": Root.FLOAT,
    "float": Root.FLOAT,
    "double": Root.DOUBLE,
    "string": Root.VARCHAR,
    "large_string": Root.VARCHAR,
    "binary": Root.VARBINARY,
    "large_binary": Root.VARBINARY,
    "date32[day]": Root.DATE,
    "null": Root.NULL,
}
"""Logical types by the name of the Arrow type."""
