"""Self-describing encoding of values: msgpack, with an extension for each further Python type.

Every value that can be written is read back equal and with the same types at every level. An unregistered class is
pickled with a warning, or refused where pickle is forbidden.

Example:
    >>> codec = SelfDescribing()
    >>> codec.decode(codec.encode({("a", 1): {2, 3}, "big": 2**80}))
    {('a', 1): {2, 3}, 'big': 1208925819614629174706176}
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import pickle
import types
import uuid
import warnings
import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from tidegate.classes import ClassEntry, class_name, find_class, registered
from tidegate.elements import RowKind
from tidegate.errors import RecordError, StateFormatError
from tidegate.row import Row
from tidegate.types import record_fields

__all__ = ["PickledValueWarning", "SelfDescribing"]

_PLAIN: Final = frozenset({str, int, float, bool, bytes, types.NoneType})
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1

# Extension numbers are persisted; never give one another meaning.
_TUPLE, _SET, _FROZENSET, _PAIRS, _BIG_INT, _DECIMAL, _UUID, _DATE, _TIME, _DATETIME = range(10)
_DURATION, _COMPLEX, _ROW, _ENUM, _CLASS, _PICKLE, _BYTEARRAY, _FRACTION, _RECORD = range(10, 19)


class PickledValueWarning(UserWarning):
    """An unregistered class was persisted by pickle: readable only while the class stays where it is."""


class SelfDescribing:
    """Codec for values of unknown type; `classes` are those a declared type names, kept field by field."""

    id: Final = "self-describing"
    version: Final = 1

    def __init__(
        self,
        classes: Mapping[type[Any], ClassEntry] | None = None,
        *,
        pickle: Literal["allow", "forbid", "quiet"] = "allow",
        fingerprint: str = "any",
    ) -> None:
        self.fingerprint = fingerprint
        self._classes = {
            cls: (f"{cls.__module__}:{cls.__qualname__}", entry) for cls, entry in (classes or {}).items()
        }
        self._entries = dict(self._classes.values())
        self._pickle = pickle
        self._pickled: dict[type[Any], bool] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(ext_hook=self._unpack_extension).decode

    def encode(self, value: Any) -> bytes:
        """The bytes of one value.

        Raises:
            RecordError: the value cannot be written so that it comes back the same.
        """
        try:
            if type(value) in _PLAIN or (type(value) is list and _PLAIN.issuperset(map(type, value))):
                try:
                    return self._encode(value)
                except OverflowError:
                    pass  # an int of more than 64 bits needs an extension
            data = self._encode(self._pack(value))
        except _UnknownClassError as unknown:
            raise RecordError(self._refusal(unknown.cls, value)) from unknown.__cause__
        except (UnicodeEncodeError, RecursionError) as error:
            raise RecordError(f"{type(value).__name__} cannot be encoded: {error}") from error
        if self._pickle == "allow" and not all(self._pickled.values()):
            self._warn(value)
        return data

    def decode(self, data: bytes) -> Any:
        """The value of bytes written by `encode`.

        Raises:
            StateFormatError: the bytes are not of this form, or a class they name is gone.
        """
        try:
            return self._decode(data)
        except StateFormatError:
            raise
        except Exception as error:  # invalid bytes fail in any constructor they reach
            raise StateFormatError(
                f"not a self-describing value: {error}; check whether another codec wrote it"
            ) from error

    def encode_each(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each value; raises as `encode` does."""
        if _PLAIN.issuperset(map(type, values)):
            try:
                return list(map(self._encode, values))
            except (OverflowError, UnicodeEncodeError):
                pass  # one of them needs the long way
        return list(map(self.encode, values))

    def encode_batch(self, values: list[Any]) -> bytes:
        """The bytes of a list of values."""
        return self.encode(values)

    def decode_batch(self, data: bytes) -> list[Any]:
        """The list of bytes written by `encode_batch`."""
        values: list[Any] = self.decode(data)
        return values

    def entry(self, name: str) -> ClassEntry:
        """How a class is read.

        Raises:
            StateFormatError: it is not known here.
        """
        return self._entries.get(name) or _registered_entry(name)

    def _pack(self, value: Any) -> Any:
        """The value in terms of msgpack and extensions."""
        kind = type(value)
        if kind is int:
            return value if _MIN_INT <= value <= _MAX_INT else self._extension(_BIG_INT, str(hex(value)))
        if kind in _PLAIN:
            return value
        if kind is list:
            return value if _ATOMS.issuperset(map(type, value)) else list(map(self._pack, value))
        if kind is dict:
            return self._pack_dict(value)
        if kind is tuple and _ATOMS.issuperset(map(type, value)):
            return self._extension(_TUPLE, value)
        if packer := _PACKERS.get(kind):
            code, plain = packer(value)
            return self._extension(code, self._pack(plain) if code in _NESTED else plain)
        return self._pack_class(kind, value)

    def _pack_dict(self, value: dict[Any, Any]) -> Any:
        if {str}.issuperset(map(type, value)):
            return {key: self._pack(item) for key, item in value.items()}
        return self._extension(_PAIRS, [[self._pack(key), self._pack(item)] for key, item in value.items()])

    def _pack_class(self, kind: type[Any], value: Any) -> msgspec.msgpack.Ext:
        if known := self._classes.get(kind) or registered(kind):
            name, entry = known
            plain = [name, self._pack(entry.encode(value))]
            return self._extension(_RECORD if entry.named else _CLASS, plain)
        try:
            if isinstance(value, enum.Enum):
                return self._extension(_ENUM, _enum_parts(value, class_name(kind)))
            if self._pickle == "forbid":
                raise _UnknownClassError(kind)
            data = pickle.dumps(value, protocol=5)
        except (RecordError, pickle.PicklingError, TypeError, AttributeError) as error:
            raise _UnknownClassError(kind) from error
        self._pickled.setdefault(kind, False)
        return msgspec.msgpack.Ext(_PICKLE, data)

    def _extension(self, code: int, plain: Any) -> msgspec.msgpack.Ext:
        return msgspec.msgpack.Ext(code, self._encode(plain))

    def _unpack_extension(self, code: int, data: memoryview) -> Any:
        if code == _PICKLE:
            if self._pickle == "forbid":
                raise StateFormatError(
                    "the bytes contain a pickled value, and pickle is forbidden; allow pickle to read them"
                )
            return pickle.loads(data)  # noqa: S301  # our own state, written under pickle: allow
        plain = self._decode(data)
        if code in (_CLASS, _RECORD):
            name, fields = plain
            return self.entry(name).decode(fields)
        if unpack := _UNPACKERS.get(code):
            return unpack(plain)
        raise StateFormatError(
            f"unknown extension {code}; the bytes were written by a newer version of tidegate"
        )

    def _refusal(self, cls: type[Any], root: Any) -> str:
        why = "and pickle is forbidden" if self._pickle == "forbid" else "and cannot be pickled"
        return f"{_place(root, cls)} is of class {cls.__qualname__}, which is not registered {why}; use register_class"

    def _warn(self, root: Any) -> None:
        for cls, warned in self._pickled.items():
            if not warned:
                self._pickled[cls] = True
                warnings.warn(
                    f"{_place(root, cls)} is of class {cls.__qualname__}, which is not registered, and is persisted by "
                    "pickle; use register_class",
                    PickledValueWarning,
                    stacklevel=3,
                )


class _UnknownClassError(Exception):
    """Reports to `encode`, which has the whole value, what could not be packed."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__(cls)
        self.cls = cls


def _registered_entry(name: str) -> ClassEntry:
    found = registered(find_class(name))
    if found is None:
        raise StateFormatError(
            f"class {name!r} is not registered; call register_class before the state is read"
        )
    return found[1]


def _enum_parts(member: enum.Enum, name: str) -> list[Any]:
    return [name, member.value if isinstance(member, enum.Flag) else member.name]


def _find_member(parts: list[Any]) -> Any:
    cls = find_class(parts[0])
    return cls(parts[1]) if isinstance(parts[1], int) else cls[parts[1]]


def _zone(value: datetime.datetime | datetime.time) -> Any:
    """A zone as something to find it by: nothing, microseconds of offset, or the key of a zone file."""
    zone = value.tzinfo
    if zone is None:
        return None
    if type(zone) is datetime.timezone:
        return zone.utcoffset(None) // datetime.timedelta(microseconds=1)
    if type(zone) is zoneinfo.ZoneInfo and zone.key:
        return zone.key
    raise RecordError(
        f"zone {zone!r} cannot be encoded; use datetime.timezone or zoneinfo.ZoneInfo with a key"
    )


def _find_zone(zone: Any) -> datetime.tzinfo | None:
    if isinstance(zone, str):
        return zoneinfo.ZoneInfo(zone)
    return None if zone is None else datetime.timezone(datetime.timedelta(microseconds=zone))


def _time_parts(value: datetime.datetime | datetime.time) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), value.fold, _zone(value)]


def _datetime_from(parts: list[Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(parts[0]).replace(fold=parts[1], tzinfo=_find_zone(parts[2]))


def _time_from(parts: list[Any]) -> datetime.time:
    return datetime.time.fromisoformat(parts[0]).replace(fold=parts[1], tzinfo=_find_zone(parts[2]))


_ATOMS: Final = frozenset({str, float, bool, bytes, types.NoneType})
_NESTED: Final = frozenset({_TUPLE, _SET, _FROZENSET, _ROW})
_PACKERS: Final[dict[type[Any], Callable[[Any], tuple[int, Any]]]] = {
    tuple: lambda value: (_TUPLE, list(value)),
    set: lambda value: (_SET, list(value)),
    frozenset: lambda value: (_FROZENSET, list(value)),
    decimal.Decimal: lambda value: (_DECIMAL, str(value)),
    uuid.UUID: lambda value: (_UUID, value.bytes),
    datetime.date: lambda value: (_DATE, value.isoformat()),
    datetime.time: lambda value: (_TIME, _time_parts(value)),
    datetime.datetime: lambda value: (_DATETIME, _time_parts(value)),
    datetime.timedelta: lambda value: (_DURATION, [value.days, value.seconds, value.microseconds]),
    complex: lambda value: (_COMPLEX, [value.real, value.imag]),
    bytearray: lambda value: (_BYTEARRAY, bytes(value)),
    fractions.Fraction: lambda value: (_FRACTION, str(value)),
    Row: lambda value: (_ROW, [list(value), list(value.names), int(value.get_row_kind())]),
}
_UNPACKERS: Final[dict[int, Callable[[Any], Any]]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _PAIRS: dict,
    _BIG_INT: lambda text: int(text, 16),
    _DECIMAL: decimal.Decimal,
    _UUID: lambda data: uuid.UUID(bytes=data),
    _DATE: datetime.date.fromisoformat,
    _TIME: _time_from,
    _DATETIME: _datetime_from,
    _DURATION: lambda parts: datetime.timedelta(*parts),
    _COMPLEX: lambda parts: complex(*parts),
    _ROW: lambda parts: Row.of(parts[0], parts[1], RowKind(parts[2])),
    _ENUM: _find_member,
    _BYTEARRAY: bytearray,
    _FRACTION: fractions.Fraction,
}


def _place(root: Any, cls: type[Any]) -> str:
    """The path to the first instance of a class in a value."""
    return next(
        (f"field {path}" for path, value in _paths(root, "") if type(value) is cls and path), "the value"
    )


def _paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(key, f"{path}{{key}}")
            yield from _paths(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple | set | frozenset | Row):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]")
    elif names := record_fields(type(value)):
        for name in names:
            yield from _paths(getattr(value, name), f"{path}.{name}")
