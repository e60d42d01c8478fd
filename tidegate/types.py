"""Type information: descriptions of value types under PyFlink's names, declared or read from annotations.

A description is frozen and comparable; codecs and checks are generated from it. `infer` answers None where Python
says nothing a codec could rely on (`Any`, `object`, unions), and the value is then called untyped.

Example:
    >>> Types.TUPLE([Types.STRING(), Types.LONG()]) == infer(tuple[str, int])
    True
    >>> print(infer(dict[str, list[float]]))
    map<string, list<double>>
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import types
import typing
import uuid
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from tidegate.errors import ConfigError
from tidegate.row import Row

__all__ = [
    "Kind",
    "Row",
    "TypeInformation",
    "Types",
    "common_type",
    "infer",
    "numbered",
    "record_fields",
    "result_type",
]

# Types carries PyFlink's names.
# ruff: noqa: N802


class Kind(StrEnum):
    """The shapes a type description can have."""

    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    BIG_INT = "big_int"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    INSTANT = "instant"
    DURATION = "duration"
    UUID = "uuid"
    ANY = "any"
    PICKLED = "pickled"
    ENUM = "enum"
    OPTIONAL = "optional"
    LIST = "list"
    SET = "set"
    FROZENSET = "frozenset"
    MAP = "map"
    TUPLE = "tuple"
    VARIADIC = "variadic"
    ROW = "row"
    RECORD = "record"


@dataclasses.dataclass(frozen=True, slots=True)
class TypeInformation:
    """One type: its kind, the class of a record or enum, and the types (and names) of what it contains."""

    kind: Kind
    items: tuple[TypeInformation, ...] = ()
    names: tuple[str, ...] = ()
    cls: type[Any] | None = None

    @property
    def fingerprint(self) -> str:
        """The type as text: equal for equal types, readable in a message, comparable between versions."""
        if self.kind is Kind.ENUM and self.cls is not None:
            return f"enum {self.cls.__qualname__}({', '.join(self.names)})"
        if self.kind in (Kind.RECORD, Kind.ROW):
            labels = self.names or numbered(len(self.items))
            fields = ", ".join(f"{name}: {item}" for name, item in zip(labels, self.items, strict=True))
            return f"record {self.cls.__qualname__}({fields})" if self.cls else f"row({fields})"
        if self.items or self.kind is Kind.TUPLE:
            return f"{self.kind}<{', '.join(map(str, self.items))}>"
        return str(self.kind)

    def walk(self) -> Iterator[TypeInformation]:
        """This type and every type inside it."""
        yield self
        for item in self.items:
            yield from item.walk()

    def __str__(self) -> str:
        return self.fingerprint


class Types:
    """PyFlink's names for type descriptions; `of` reads one from an annotation instead."""

    @staticmethod
    def of(annotation: Any) -> TypeInformation:
        """The description of an annotation: a class, a record class, `list[int]`, `str | None`.

        Raises:
            ConfigError: nothing can be inferred from it.
        """
        info = infer(annotation)
        if info is None:
            raise ConfigError(
                f"no type can be derived from {annotation!r}; expected a concrete type or a record class"
            )
        return info

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True and False, and nothing that merely equals them."""
        return TypeInformation(Kind.BOOLEAN)

    @staticmethod
    def BYTE() -> TypeInformation:
        """An int of 8 bits."""
        return TypeInformation(Kind.BYTE)

    @staticmethod
    def SHORT() -> TypeInformation:
        """An int of 16 bits."""
        return TypeInformation(Kind.SHORT)

    @staticmethod
    def INT() -> TypeInformation:
        """An int of 32 bits."""
        return TypeInformation(Kind.INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """An int of 64 bits; the type of the annotation `int`."""
        return TypeInformation(Kind.LONG)

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """An int of any size."""
        return TypeInformation(Kind.BIG_INT)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """A float; kept with all 64 bits, because fewer would change it."""
        return TypeInformation(Kind.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """A float; the type of the annotation `float`."""
        return TypeInformation(Kind.DOUBLE)

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """A Decimal."""
        return TypeInformation(Kind.DECIMAL)

    @staticmethod
    def STRING() -> TypeInformation:
        """A str."""
        return TypeInformation(Kind.STRING)

    @staticmethod
    def CHAR() -> TypeInformation:
        """A str; that it is one character is not checked."""
        return TypeInformation(Kind.STRING)

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A date."""
        return TypeInformation(Kind.DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A time of day without a zone."""
        return TypeInformation(Kind.TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A datetime without a zone."""
        return TypeInformation(Kind.TIMESTAMP)

    @staticmethod
    def INSTANT() -> TypeInformation:
        """A datetime in UTC."""
        return TypeInformation(Kind.INSTANT)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any value, by pickle; declared explicitly, so there is no warning."""
        return TypeInformation(Kind.PICKLED)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """`bytes` for elements of BYTE, otherwise a list."""
        return TypeInformation(Kind.BYTES) if element_type.kind is Kind.BYTE else Types.LIST(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of one type, and of None."""
        return Types.LIST(Types.OPTIONAL(element_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of one type, and of None."""
        return Types.LIST(Types.OPTIONAL(element_type))

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """A list of one type."""
        return TypeInformation(Kind.LIST, (element_type_info,))

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """A dict of one key type and one value type."""
        return TypeInformation(Kind.MAP, (key_type_info, value_type_info))

    @staticmethod
    def OPTIONAL(item: TypeInformation) -> TypeInformation:
        """The type or None."""
        return item if item.kind in (Kind.OPTIONAL, Kind.ANY) else TypeInformation(Kind.OPTIONAL, (item,))

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """A tuple of fixed length."""
        return TypeInformation(Kind.TUPLE, tuple(field_types))

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> TypeInformation:
        """A `Row` with fields named f0, f1, ...; each may be None."""
        return Types.ROW_NAMED(numbered(len(field_types)), field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> TypeInformation:
        """A `Row` with named fields; each may be None.

        Raises:
            ConfigError: names and types differ in number, or a name repeats.
        """
        if len(field_names) != len(field_types) or len(set(field_names)) != len(field_names):
            raise ConfigError(
                f"invalid row field names; got {list(field_names)}; expected {len(field_types)} different ones"
            )
        return TypeInformation(Kind.ROW, tuple(field_types), tuple(field_names))


def numbered(count: int) -> tuple[str, ...]:
    """The default names of fields: f0, f1, ..."""
    return tuple(f"f{index}" for index in range(count))


def infer(annotation: Any) -> TypeInformation | None:
    """The type that an annotation declares, or None if it declares none.

    A record class (dataclass, NamedTuple, msgspec.Struct) with an open field is still a record; only that field is
    carried as an untyped value.
    """
    info = _infer(annotation, ())
    return None if info.kind is Kind.ANY else info


def result_type(function: Any, *, element: bool = False) -> TypeInformation | None:
    """The return type of a function, or with `element` the element type of the iterable it returns; None if not annotated."""
    if isinstance(function, functools.partial):
        return result_type(function.func, element=element)
    if isinstance(function, type):
        return None if element else infer(function)
    if not inspect.isroutine(function):
        function = type(function).__call__ if callable(function) else None
    annotation = _hints(function).get("return")
    if not element:
        return infer(annotation)
    inner = typing.get_args(annotation)
    return infer(inner[0]) if inner and typing.get_origin(annotation) in _ITERABLES else None


def common_type(types: list[TypeInformation | None]) -> TypeInformation | None:
    """The one type of all streams of a union, or None if some do not say theirs; refuses two that differ.

    Example:
        >>> str(common_type([Types.INT(), Types.INT()]))
        'int'
    """
    known = [info for info in types if info is not None and info.kind not in (Kind.ANY, Kind.PICKLED)]
    for info in known:
        if info != known[0]:
            raise ConfigError(
                f"union of streams of different types: got {known[0]} and {info}; expected one type; "
                "map one stream to the type of the other, or use connect"
            )
    return types[0] if len(set(types)) == 1 else None


_ANY: Final = TypeInformation(Kind.ANY)
_BY_CLASS: Final[dict[Any, Kind]] = {
    bool: Kind.BOOLEAN,
    int: Kind.LONG,
    float: Kind.DOUBLE,
    str: Kind.STRING,
    bytes: Kind.BYTES,
    decimal.Decimal: Kind.DECIMAL,
    datetime.date: Kind.DATE,
    datetime.time: Kind.TIME,
    datetime.datetime: Kind.DATETIME,
    datetime.timedelta: Kind.DURATION,
    uuid.UUID: Kind.UUID,
}
_BY_ORIGIN: Final[dict[Any, Kind]] = {
    list: Kind.LIST,
    set: Kind.SET,
    frozenset: Kind.FROZENSET,
    dict: Kind.MAP,
}
_ITERABLES: Final = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.Sequence,
    collections.abc.Collection,
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    list,
    set,
    frozenset,
)


def _infer(annotation: Any, outer: tuple[type, ...]) -> TypeInformation:
    """`infer` with ANY for None; `outer` are the record classes being read, so that a recursive one stays open."""
    if isinstance(annotation, typing.NewType):
        return _infer(annotation.__supertype__, outer)
    if kind := _BY_CLASS.get(annotation) if isinstance(annotation, type) else None:
        return TypeInformation(kind)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _infer(arguments[0], outer)
    if origin in (typing.Union, types.UnionType):
        return _infer_union(arguments, outer)
    if origin is typing.Literal:
        kinds = {_BY_CLASS.get(type(value)) for value in arguments}
        return TypeInformation(kinds.pop() or Kind.ANY) if len(kinds) == 1 else _ANY
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return TypeInformation(Kind.VARIADIC, (_infer(arguments[0], outer),))
        return TypeInformation(Kind.TUPLE, tuple(_infer(item, outer) for item in arguments))
    if origin in _BY_ORIGIN:
        return TypeInformation(_BY_ORIGIN[origin], tuple(_infer(item, outer) for item in arguments))
    return _infer_class(annotation, outer) if isinstance(annotation, type) and origin is None else _ANY


def _infer_union(arguments: tuple[Any, ...], outer: tuple[type, ...]) -> TypeInformation:
    rest = [item for item in arguments if item is not types.NoneType]
    return Types.OPTIONAL(_infer(rest[0], outer)) if len(rest) == 1 < len(arguments) else _ANY


def _infer_class(cls: type[Any], outer: tuple[type, ...]) -> TypeInformation:
    if issubclass(cls, enum.Enum):
        return TypeInformation(Kind.ENUM, names=tuple(cls.__members__), cls=cls)
    names = record_fields(cls)
    if names is None or cls in outer:
        return _ANY
    hints = _hints(cls)
    items = tuple(_infer(hints.get(name, Any), (*outer, cls)) for name in names)
    return TypeInformation(Kind.RECORD, items, names, cls)


def record_fields(cls: type[Any]) -> tuple[str, ...] | None:
    """The field names of a dataclass, NamedTuple or msgspec.Struct; None for any other class."""
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    # a dataclass on top of list, str or an exception holds more than its fields
    if dataclasses.is_dataclass(cls) and cls.__new__ is object.__new__:
        return tuple(field.name for field in dataclasses.fields(cls))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return None


def _hints(owner: Any) -> dict[str, Any]:
    """The resolved annotations, or none at all when a name in them cannot be found."""
    closure = getattr(owner, "__closure__", None) or ()
    names = getattr(getattr(owner, "__code__", None), "co_freevars", ())
    try:
        found = {name: cell.cell_contents for name, cell in zip(names, closure, strict=True)}
        return typing.get_type_hints(owner, localns=found or None, include_extras=True)
    except (NameError, TypeError, AttributeError, ValueError, SyntaxError):
        return {}
