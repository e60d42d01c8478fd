"""Sum, minimum and maximum of one field of a keyed stream's records.

A field is a position of a tuple, list or Row, or the name of one of a Row, dict or record class. A plain number is
its own field 0.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from tidegate.errors import ConfigError, RecordError
from tidegate.types import Row

__all__ = ["Aggregation", "Projection", "field_of", "with_field"]

Field = int | str


@dataclass(frozen=True)
class Aggregation:
    """Combines what a key's records came to with the next one; a reduce function.

    `sum`, `min` and `max` change the field and keep the rest of the first record; `min_by` and `max_by` keep one of
    the records whole, the earlier one if both have the same value.
    """

    how: Literal["sum", "min", "max", "min_by", "max_by"]
    field: Field

    def __post_init__(self) -> None:
        _check(self.how, self.field)

    def __call__(self, before: Any, record: Any) -> Any:
        """The combination of two records."""
        old, new = field_of(before, self.field), field_of(record, self.field)
        match self.how:
            case "min_by":
                return record if new < old else before
            case "max_by":
                return record if new > old else before
            case how:
                return with_field(before, self.field, _OF_TWO[how](old, new))

    def of_two(self, old: str, new: str) -> str | None:
        """The combination of two fields as an expression; None where one of the records is kept whole."""
        match self.how:
            case "sum":
                return f"{old} + {new}"
            case "min":
                return f"{new} if {new} < {old} else {old}"
            case "max":
                return f"{new} if {new} > {old} else {old}"
        return None

    @property
    def combination(self) -> Callable[[Any, Any], Any]:
        """The same as a call, made ready for many: tuples with the field at a place go a short way."""
        place, combine = self.field, _OF_TWO.get(self.how)
        if combine is None or not isinstance(place, int) or place < 0:
            return self

        def combination(before: Any, record: Any) -> Any:
            if (
                type(before) is tuple
                and type(record) is tuple
                and place < len(before)
                and place < len(record)
            ):
                return (*before[:place], combine(before[place], record[place]), *before[place + 1 :])
            return self(before, record)

        return combination


@dataclass(frozen=True)
class Projection:
    """Keeps some positions of a tuple; a map function."""

    fields: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in self.fields:
            _check("project", field)

    def __call__(self, record: Any) -> tuple[Any, ...]:
        """The tuple of these fields."""
        return tuple(field_of(record, field) for field in self.fields)


def field_of(record: Any, field: Field) -> Any:
    """The value of a field.

    Raises:
        RecordError: the record has no such field.
    """
    try:
        match record:
            case dict() | Row():
                return record[field]
            case _ if isinstance(field, str):
                return getattr(record, field)
            case tuple() | list():
                return record[field]
            case int() | float() | str() if field == 0:
                return record
    except (LookupError, AttributeError, TypeError) as error:
        raise _missing(record, field) from error
    raise _missing(record, field)


def with_field(record: Any, field: Field, value: Any) -> Any:
    """A copy of the record with another value in a field that it has."""
    match record:
        case tuple() if hasattr(record, "_replace") and hasattr(record, "_fields"):
            name = record._fields[field] if isinstance(field, int) else field
            return record._replace(**{name: value})
        case tuple():
            place = range(len(record))[int(field)]
            return (*record[:place], value, *record[place + 1 :])
        case list() | dict() | Row():
            copied: Any = copy.copy(record)
            copied[field] = value
            return copied
        case msgspec.Struct():
            return msgspec.structs.replace(record, **{str(field): value})
        case int() | float() | str():
            return value
    return dataclasses.replace(record, **{str(field): value})


_OF_TWO: Final[dict[str, Callable[[Any, Any], Any]]] = {"sum": operator.add, "min": min, "max": max}


def _check(step: str, field: Field) -> None:
    if type(field) not in (int, str):
        raise ConfigError(f"{step} got field {field!r}; expected a position or a name")


def _missing(record: Any, field: Field) -> RecordError:
    return RecordError(f"record {record!r} has no field {field!r}; name one that every record has")
