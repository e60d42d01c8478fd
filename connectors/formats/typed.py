"""Conversion between JSON or CSV values and rows of a declared type.

Example:
    >>> from tidegate.types import Types
    >>> info = Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
    >>> to_rows(info)(msgspec.json.decode(b'{"id": 1, "tags": ["a"]}', type=annotation(info)))
    Row(id=1, tags=['a'])
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError
from tidegate.row import Row
from tidegate.types import Kind, TypeInformation, numbered

__all__ = ["annotation", "field_names", "inserted", "row_type", "row_values", "to_rows"]

Convert = Callable[[Any], Any]


def _bits(count: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (count - 1)), le=2 ** (count - 1) - 1)]


_PLAIN: Final[Mapping[Kind, Any]] = {
    Kind.BOOLEAN: bool,
    Kind.BYTE: _bits(8),
    Kind.SHORT: _bits(16),
    Kind.INT: _bits(32),
    Kind.LONG: _bits(64),
    Kind.BIG_INT: int,
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
    Kind.DECIMAL: decimal.Decimal,
    Kind.STRING: str,
    Kind.BYTES: bytes,
    Kind.DATE: datetime.date,
    Kind.TIME: datetime.time,
    Kind.DATETIME: datetime.datetime,
    Kind.TIMESTAMP: Annotated[datetime.datetime, msgspec.Meta(tz=False)],
    Kind.INSTANT: Annotated[datetime.datetime, msgspec.Meta(tz=True)],
    Kind.DURATION: datetime.timedelta,
    Kind.UUID: uuid.UUID,
    Kind.ANY: Any,
}


def row_type(schema: str, info: TypeInformation | None) -> TypeInformation:
    """The type of a schema's rows.

    Raises:
        ConfigError: it is missing, or not a row.
    """
    if info is None or info.kind is not Kind.ROW:
        raise ConfigError(
            f"{schema}: the type is {info}; expected Types.ROW_NAMED(names, types), or Types.ROW(types)"
        )
    return info


def field_names(info: TypeInformation) -> tuple[str, ...]:
    """What the fields of a row are called outside: `f0`, `f1`, ... if they have no names."""
    return info.names or numbered(len(info.items))


def annotation(info: TypeInformation, *, all_there: bool = False) -> Any:
    """The msgspec type of a type: a row is a separate class, and any of its fields may be null.

    `all_there` says that none may be missing.

    Raises:
        ConfigError: the type has no representation.
    """
    inner = [annotation(item, all_there=all_there) for item in info.items]
    match info.kind:
        case Kind.ROW:
            # Field names may not be Python identifiers, so they are numbered there.
            numbered = {f"f{index}": name for index, name in enumerate(field_names(info))}
            fields = [
                (name, item | None) if all_there else (name, item | None, None)
                for name, item in zip(numbered, inner, strict=True)
            ]
            return msgspec.defstruct("Row", fields, rename=numbered, frozen=True, array_like=False)
        case Kind.OPTIONAL:
            return inner[0] | None
        case Kind.LIST:
            return list[inner[0]]  # type: ignore[valid-type]
        case Kind.MAP:
            return dict[inner[0], inner[1]]  # type: ignore[valid-type]
        case Kind.TUPLE:
            return tuple[tuple(inner)]  # type: ignore[misc]
    if info.kind not in _PLAIN:
        raise ConfigError(
            f"type {info} cannot be represented in JSON or CSV; expected numbers, strings, times, lists, maps or "
            "rows"
        )
    return _PLAIN[info.kind]


def to_rows(info: TypeInformation) -> Convert:
    """The function that makes rows of values decoded as `annotation(info)`."""
    inner = [to_rows(item) if _has_rows(item) else None for item in info.items]
    match info.kind:
        case Kind.ROW:
            count, names = range(len(inner)), info.names
            attributes = [f"f{index}" for index in count]
            return lambda value: Row.of(
                [_each(make, getattr(value, name)) for make, name in zip(inner, attributes, strict=True)],
                names,
            )
        case Kind.OPTIONAL:
            return lambda value: _each(inner[0], value)
        case Kind.LIST:
            return lambda value: [_each(inner[0], item) for item in value]
        case Kind.MAP:
            return lambda value: {key: _each(inner[1], item) for key, item in value.items()}
        case Kind.TUPLE:
            return lambda value: tuple(map(_each, inner, value))
    return lambda value: value


def inserted(schema: str, record: Any, names: tuple[str, ...]) -> list[Any]:
    """The fields of an INSERT or UPDATE_AFTER row, in order.

    Raises:
        RecordError: it is not a row of these fields, or a DELETE or UPDATE_BEFORE row.
    """
    if isinstance(record, Row) and record.get_row_kind() in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
        raise RecordError(
            f"{schema} cannot encode a DELETE or UPDATE_BEFORE row; got record {record!r:.80}; write to Kafka "
            "with upsert, or filter changes first"
        )
    return row_values(schema, record, names)


def row_values(schema: str, record: Any, names: tuple[str, ...]) -> list[Any]:
    """The fields of a row, tuple or dictionary, in order.

    Raises:
        RecordError: it is not a row of these fields.
    """
    if isinstance(record, (Row, tuple)) and len(record) == len(names):
        # Rows are as their type says by then; names a function gave them in another order count.
        return (
            record.get_fields_by_names(names)
            if isinstance(record, Row) and _renamed(record, names)
            else list(record)
        )
    if isinstance(record, dict) and record.keys() <= set(names):
        return [record.get(name) for name in names]
    raise RecordError(
        f"record {record!r:.80} does not match {schema}; expected a row of {len(names)} fields: {', '.join(names)}"
    )


def _renamed(row: Row, names: tuple[str, ...]) -> bool:
    return row.names != names and set(row.names) == set(names)


def _each(make: Convert | None, value: Any) -> Any:
    return value if make is None or value is None else make(value)


def _has_rows(info: TypeInformation) -> bool:
    return any(each.kind is Kind.ROW for each in info.walk())
