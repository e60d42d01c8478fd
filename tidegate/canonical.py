"""Canonical form of keys: one value that represents all keys equal to it.

Undeclared keys follow Python's equality; declared ones are coerced to their type where nothing is lost.

Example:
    >>> canonical(1.0), canonical(True), canonical(("a", -0.0))
    (1, 1, ('a', 0))
    >>> from tidegate.types import Types
    >>> canonical(1, Types.DOUBLE())
    1.0
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tidegate.checks import checker, exact_class, shorten
from tidegate.classes import class_name, record_entry
from tidegate.errors import RecordError
from tidegate.row import Row
from tidegate.types import Kind, TypeInformation, Types, record_fields

__all__ = ["canonical", "canonical_batch", "themselves"]


def canonical(key: Any, info: TypeInformation | None = None) -> Any:
    """The one key that represents all keys equal to it; what user code sees.

    With a declared type the key is coerced to it where nothing is lost; without one the form follows Python's
    equality: booleans and integral floats become ints, members of enums with a value type become the value.

    Raises:
        RecordError: the key has no such form; the message says what to use instead.
    """
    return _canonical(key) if info is None else _coerce(key, info)


def canonical_batch(keys: list[Any], info: TypeInformation | None = None) -> list[Any]:
    """`canonical` of each key; the list itself where all keys are canonical already.

    Raises:
        RecordError: as `canonical`.
    """
    if themselves(info).issuperset(map(type, keys)):
        return keys
    return [canonical(key, info) for key in keys]


def themselves(info: TypeInformation | None) -> frozenset[type[Any]]:
    """The types whose values are already canonical, with or without a declared type."""
    return _THEMSELVES if info is None else _THEMSELVES_AS.get(info.kind, frozenset())


def _canonical(key: Any) -> Any:
    kind: Any = type(key)
    if form := _FORMS.get(kind):
        return form(key)
    for base, plain in _PLAIN_OF.items():
        if isinstance(key, base):
            if kind.__eq__ is not base.__eq__ or kind.__hash__ is not base.__hash__:
                raise _refusal(key, f"has its own comparison; convert it to a plain {base.__name__}")
            return _canonical(plain(key))
    if isinstance(key, enum.Enum):
        if kind.__eq__ is not object.__eq__:
            raise _refusal(key, "has its own comparison; use its name or value")
        class_name(kind)
        return key
    if not _is_frozen(kind):
        raise _refusal(key, _remedy(key))
    return _rebuild(key, [_canonical(getattr(key, name)) for name in record_fields(kind) or ()])


def _canonical_tuple(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return key if _THEMSELVES.issuperset(map(type, key)) else tuple(map(_canonical, key))


def _canonical_float(key: float) -> int | float:
    if key != key:
        raise _refusal(key, "is not equal to itself; replace it, for instance by None")
    return int(key) if key.is_integer() else key


def _canonical_datetime(key: datetime.datetime) -> datetime.datetime:
    if key.tzinfo is None:
        return key.replace(fold=0)
    if type(key.tzinfo) is not datetime.timezone:
        raise _refusal(
            key, "has a time zone with a changing offset; convert it with .astimezone(timezone.utc)"
        )
    return key.astimezone(datetime.UTC).replace(fold=0)


def _canonical_time(key: datetime.time) -> datetime.time:
    if key.tzinfo is not None:
        raise _refusal(key, "has a time zone; use a datetime in UTC or a time without a time zone")
    return key.replace(fold=0)


def _canonical_row(key: Row) -> Row:
    return Row.of(list(map(_canonical, key)), key.names, key.get_row_kind())


def _rebuild(key: Any, fields: list[Any]) -> Any:
    """The record with canonical fields; itself if they are canonical already."""
    class_name(type(key))
    entry = record_entry(type(key))
    if all(old is new for old, new in zip(entry.encode(key), fields, strict=True)):
        return key
    return entry.decode(tuple(fields))


def _is_frozen(cls: type[Any]) -> bool:
    """Whether instances never change and are equal exactly when their class and fields are."""
    if issubclass(cls, msgspec.Struct):
        config = cls.__struct_config__
        return config.frozen and config.eq and cls.__eq__ is msgspec.Struct.__eq__
    if record_fields(cls) is None or not dataclasses.is_dataclass(cls):
        return False
    params = cls.__dataclass_params__  # type: ignore[attr-defined]  # no stub
    generated = getattr(cls.__eq__, "__code__", None)
    return bool(
        params.frozen
        and params.eq
        and generated is not None
        and generated.co_filename == "<string>"  # where dataclasses compile the __eq__ they write
        and all(field.compare for field in dataclasses.fields(cls))
    )


def _remedy(key: Any) -> str:
    kind: Any = type(key)
    if isinstance(key, bytearray | memoryview):
        return "is mutable; use bytes(key)"
    if isinstance(key, decimal.Decimal) or kind.__name__ == "Fraction":
        return "equals numbers of other types; declare the key type or use a str"
    if (
        isinstance(key, list | dict | set | frozenset)
        or hasattr(key, "__array__")
        or hasattr(key, "typecode")
    ):
        return "is a collection; use a tuple, sorted if the order has no meaning"
    if record_fields(kind) is not None:
        return (
            "is a mutable record or has its own comparison; declare its class frozen and comparing all fields"
        )
    if kind.__hash__ is object.__hash__ or kind.__hash__ is None:
        return "is compared by identity; use a frozen dataclass, a tuple or one of its fields"
    return "has no canonical encoding; use a str, an int, a tuple or a frozen dataclass"


def _refusal(key: Any, why: str) -> RecordError:
    return RecordError(f"{type(key).__name__} {shorten(key)} cannot be a key: it {why}")


def _itself(key: Any) -> Any:
    return key


_FORMS: Final[dict[type[Any], Callable[[Any], Any]]] = {
    str: _itself,
    int: _itself,
    bytes: _itself,
    types.NoneType: _itself,
    uuid.UUID: _itself,
    datetime.date: _itself,
    datetime.timedelta: _itself,
    datetime.datetime: _canonical_datetime,
    datetime.time: _canonical_time,
    bool: int,
    float: _canonical_float,
    tuple: _canonical_tuple,
    Row: _canonical_row,
}
# the methods of the base class, because a subclass may override str() and friends
_PLAIN_OF: Final[dict[type[Any], Callable[[Any], Any]]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda key: bytes(memoryview(key)),
    tuple: lambda key: tuple(tuple.__iter__(key)),
}
_THEMSELVES: Final[frozenset[type[Any]]] = frozenset({str, int, bytes, types.NoneType})
_THEMSELVES_AS: Final[dict[Kind, frozenset[type[Any]]]] = {
    Kind.ANY: _THEMSELVES,
    Kind.STRING: frozenset({str}),
    Kind.LONG: frozenset({int}),
    Kind.BIG_INT: frozenset({int}),
    Kind.BYTES: frozenset({bytes}),
    Kind.BOOLEAN: frozenset({bool}),
}


def _coerce(key: Any, info: TypeInformation) -> Any:
    """The key as its declared type; equal to the original."""
    match info.kind:
        case Kind.ANY:
            return _canonical(key)
        case Kind.OPTIONAL:
            return None if key is None else _coerce(key, info.items[0])
        case Kind.TUPLE | Kind.VARIADIC if isinstance(key, tuple | list | Row):
            items = info.items * len(key) if info.kind is Kind.VARIADIC else info.items
            if len(items) == len(key):
                return tuple(map(_coerce, key, items))
        case Kind.ROW if (
            isinstance(key, Row) and key.names in ((), info.names) and len(key) == len(info.items)
        ):
            fields = map(_coerce, key, map(Types.OPTIONAL, info.items))
            return Row.of(list(fields), info.names, key.get_row_kind())
        case Kind.RECORD if type(key) is info.cls and (isinstance(key, tuple) or _is_frozen(type(key))):
            return _rebuild(
                key,
                [
                    _coerce(getattr(key, name), item)
                    for name, item in zip(info.names, info.items, strict=True)
                ],
            )
        case Kind.LIST | Kind.SET | Kind.FROZENSET | Kind.MAP if isinstance(
            key, list | set | frozenset | dict
        ):
            raise _refusal(key, _remedy(key))
        case Kind.ENUM if type(key) is info.cls:
            class_name(type(key))
            return key
        case kind if not info.items and info.cls is None and kind is not Kind.PICKLED:
            found = _coerce_scalar(key, exact_class(kind))
            if checker(info)(found):
                return found
    raise RecordError(
        f"key does not have its declared type; got {type(key).__name__} {shorten(key)}; expected {info}; "
        "convert it in the key selector"
    )


def _coerce_scalar(key: Any, cls: type[Any]) -> Any:
    """The value of class `cls` that equals the key; None if there is none."""
    if cls in (bool, int, float):
        return _coerce_number(key, cls) if isinstance(key, int | float) else None
    if cls is decimal.Decimal:
        return _plain_decimal(decimal.Decimal(key)) if isinstance(key, int | decimal.Decimal) else None
    if cls in _PLAIN_OF and isinstance(key, cls):
        return _PLAIN_OF[cls](key)
    return _FORMS[cls](key) if type(key) is cls else None


def _coerce_number(key: int | float, cls: type[Any]) -> Any:
    try:
        found = cls(key)
    except (ValueError, OverflowError):
        return None
    if found != key:
        return None
    return found + 0.0 if cls is float else found  # there is one zero


def _plain_decimal(key: decimal.Decimal) -> decimal.Decimal | None:
    """The same number without trailing zeros; `normalize` would round to the precision of the context."""
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):
        return None if key.is_nan() else key
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return decimal.Decimal(0)
    return decimal.Decimal((sign, tuple(map(int, stripped)), exponent + len(text) - len(stripped)))
