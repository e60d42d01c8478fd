"""Registry of class names in persisted bytes: the registered name, or module and qualified name.

A registered name survives a move of the class to another module, and lets a class without declared fields be
persisted without pickle.

Example:
    >>> class Money:
    ...     def __init__(self, cents: int) -> None:
    ...         self.cents = cents
    >>> _ = register_class(Money, name="money", encode=lambda money: money.cents, decode=Money)
    >>> class_name(Money), find_class("money") is Money
    ('money', True)
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.types import record_fields

__all__ = [
    "ClassEntry",
    "class_name",
    "field_defaults",
    "find_class",
    "rebuild",
    "record_entry",
    "register_class",
    "registered",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """How instances of one class become plain values and back."""

    cls: type[Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    named: bool = False
    """Whether the plain value is a dictionary of the fields."""


_by_class: Final[dict[type[Any], tuple[str, ClassEntry]]] = {}
_by_name: Final[dict[str, ClassEntry]] = {}


def register_class(
    cls: type[T],
    *,
    name: str | None = None,
    encode: Callable[[T], Any] | None = None,
    decode: Callable[[Any], T] | None = None,
) -> type[T]:
    """Let instances of `cls` be persisted under `name`, in every process that reads or writes them.

    A dataclass, NamedTuple or msgspec.Struct is kept field by field; any other class needs `encode` to a value that
    can be persisted, and `decode` back from it.

    Raises:
        ConfigError: the class has no fields and no functions, or the name belongs to another class.
    """
    label = name or f"{cls.__module__}:{cls.__qualname__}"
    known = _by_name.get(label)
    if known is not None and known.cls is not cls:
        raise ConfigError(
            f"class name {label!r} is already registered for {known.cls!r}; got {cls!r}; register one of them "
            "under another name"
        )
    if encode is not None and decode is not None:
        entry = ClassEntry(cls, encode, decode)
    elif encode is None and decode is None and record_fields(cls) is not None:
        entry = _named_entry(cls)
    else:
        raise ConfigError(f"class {cls.__qualname__} has no fields; expected both encode and decode")
    _by_name[label] = entry
    _by_class[cls] = (label, entry)
    return cls


def registered(cls: type[Any]) -> tuple[str, ClassEntry] | None:
    """Name and entry of a registered class."""
    return _by_class.get(cls)


def record_entry(cls: type[Any]) -> ClassEntry:
    """An entry that keeps a record class as the tuple of its fields, in order, and rebuilds it without `__init__`."""
    names = record_fields(cls) or ()

    def encode(value: Any) -> tuple[Any, ...]:
        return tuple(value) if issubclass(cls, tuple) else tuple([getattr(value, name) for name in names])

    def decode(fields: tuple[Any, ...]) -> Any:
        if len(fields) != len(names):
            raise StateFormatError(
                f"record {cls.__qualname__} has changed; got {len(fields)} fields; expected {names}"
            )
        return rebuild(cls, names, fields)

    return ClassEntry(cls, encode, decode)


def rebuild(cls: type[Any], names: tuple[str, ...], fields: tuple[Any, ...]) -> Any:
    """An instance of a record class from all its fields, without running its `__init__`."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, fields)
    if issubclass(cls, msgspec.Struct):
        struct = cls(**dict(zip(names, fields, strict=True)))
        for name, field in zip(names, fields, strict=True):
            force_setattr(struct, name, field)  # what __post_init__ derived again is not what was kept
        return struct
    record = object.__new__(cls)
    for name, field in zip(names, fields, strict=True):
        object.__setattr__(record, name, field)
    return record


def field_defaults(cls: type[Any]) -> dict[str, Callable[[], Any]]:
    """The factories of default values of a record class, by field."""
    if issubclass(cls, tuple):
        values: dict[str, Any] = getattr(cls, "_field_defaults", {})
        return {name: functools.partial(_itself, value) for name, value in values.items()}
    struct = issubclass(cls, msgspec.Struct)
    # A class that travelled by value has its own marker, so the type of the marker decides.
    absent = type(msgspec.NODEFAULT) if struct else type(dataclasses.MISSING)
    made: dict[str, Callable[[], Any]] = {}
    fields: Iterable[Any] = msgspec.structs.fields(cls) if struct else dataclasses.fields(cls)
    for field in fields:
        if not isinstance(field.default_factory, absent):
            made[field.name] = field.default_factory
        elif not isinstance(field.default, absent):
            made[field.name] = functools.partial(_itself, field.default)
    return made


def class_name(cls: type[Any]) -> str:
    """The name under which `find_class` gives `cls` back.

    Raises:
        RecordError: the class cannot be imported by name.
    """
    if known := _by_class.get(cls):
        return known[0]
    label = f"{cls.__module__}:{cls.__qualname__}"
    if _look_up(label) is not cls:
        raise RecordError(
            f"class {label} cannot be found by its name; define it at the top of a module or register it under a name"
        )
    return label


def find_class(label: str) -> type[Any]:
    """The class of a persisted name.

    Raises:
        StateFormatError: there is none.
    """
    if entry := _by_name.get(label):
        return entry.cls
    found = _look_up(label)
    if not isinstance(found, type):
        raise StateFormatError(
            f"class {label!r} is not registered; register it under this name before the state is read"
        )
    return found


def _itself(value: Any) -> Any:
    return value


def _named_entry(cls: type[Any]) -> ClassEntry:
    """An entry that keeps the names of the fields, since no declared type does: fields may come and go."""
    names = record_fields(cls) or ()
    by_place, defaults = record_entry(cls), field_defaults(cls)

    def encode(value: Any) -> dict[str, Any]:
        return dict(zip(names, by_place.encode(value), strict=True))

    def decode(fields: Any) -> Any:
        if type(fields) is not dict:
            return by_place.decode(fields)
        if missing := [name for name in names if name not in fields and name not in defaults]:
            raise StateFormatError(
                f"record {cls.__qualname__} has changed; got fields {', '.join(fields)}; expected "
                f"{', '.join(missing)} too; give new fields a default"
            )
        return rebuild(
            cls, names, tuple([fields[name] if name in fields else defaults[name]() for name in names])
        )

    return ClassEntry(cls, encode, decode, named=True)


def _look_up(label: str) -> Any:
    module, _, path = label.partition(":")
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return found
