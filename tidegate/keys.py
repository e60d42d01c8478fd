"""Canonical key bytes, key groups and their assignment to subtasks.

Keys that Python calls equal have the same bytes and keys that it calls different have different ones, so the
grouping does not depend on the process, the executor or the parallelism.

Example:
    >>> canonical(1.0), canonical(True), canonical(("a", -0.0))
    (1, 1, ('a', 0))
    >>> data = key_bytes(canonical("user-7"))
    >>> key_group(data, 128), key_from_bytes(data)
    (61, 'user-7')
"""

from __future__ import annotations

import datetime
import decimal
import enum
import types
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

from tidegate.canonical import canonical, canonical_batch
from tidegate.classes import class_name, find_class, record_entry
from tidegate.elements import RowKind
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.row import Row
from tidegate.types import record_fields

__all__ = [
    "KeyGroupRange",
    "bytes_of_keys",
    "canonical",
    "canonical_batch",
    "check_max_parallelism",
    "default_max_parallelism",
    "groups_of_bytes",
    "key_bytes",
    "key_from_bytes",
    "key_group",
    "key_groups",
    "owner",
    "range_of",
    "ranges",
]

MIN_DEFAULT_MAX_PARALLELISM: Final = 128
UPPER_MAX_PARALLELISM: Final = 32_768


class KeyGroupRange(msgspec.Struct, frozen=True):
    """Key groups from `first` up to, not including, `last`."""

    first: int
    last: int

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """The key groups in both; empty, and so false, if there are none."""
        first = max(self.first, other.first)
        return KeyGroupRange(first, max(first, min(self.last, other.last)))

    def __contains__(self, group: int) -> bool:
        return self.first <= group < self.last

    def __len__(self) -> int:
        return self.last - self.first


def key_bytes(key: Any) -> bytes:
    """The bytes of a canonical key; a plain str or int is plain msgpack.

    Raises:
        RecordError: a str that is not valid Unicode, or a class that cannot be found by its name.
    """
    try:
        if type(key) in _PLAIN or (type(key) is tuple and _PLAIN.issuperset(map(type, key))):
            try:
                return _encode(key)
            except OverflowError:
                pass  # an int of more than 64 bits needs an extension
        return _encode(_pack(key))
    except UnicodeEncodeError as error:
        raise RecordError(f"key {key!r} is not valid Unicode; use bytes") from error


def key_from_bytes(data: bytes) -> Any:
    """The canonical key of bytes written by `key_bytes`.

    Raises:
        StateFormatError: the bytes are not a key, or name a class that no longer exists.
    """
    try:
        return _tuples(_decode(data))
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise StateFormatError(f"invalid bytes of a key: {error}; got {data[:40]!r}") from error


def key_group(data: bytes, max_parallelism: int) -> int:
    """The key group of a key's bytes."""
    return xxh3_64_intdigest(data) % max_parallelism


def bytes_of_keys(keys: Sequence[Any]) -> list[bytes]:
    """The bytes of canonical keys, in order; raises as `key_bytes` does."""
    if _PLAIN.issuperset(map(type, keys)):
        try:
            return list(map(_encode, keys))
        except (OverflowError, UnicodeEncodeError):
            pass  # one of them needs the long way
    return list(map(key_bytes, keys))


def key_groups(keys: Sequence[Any], max_parallelism: int) -> list[int]:
    """The key groups of canonical keys, in order."""
    return groups_of_bytes(bytes_of_keys(keys), max_parallelism)


def groups_of_bytes(keys: Sequence[bytes], max_parallelism: int) -> list[int]:
    """The key groups of the bytes of keys, in order."""
    return [digest % max_parallelism for digest in map(xxh3_64_intdigest, keys)]


def owner(group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask that owns a key group."""
    return group * parallelism // max_parallelism


def ranges(parallelism: int, max_parallelism: int) -> list[KeyGroupRange]:
    """The key groups of each subtask; together all of them, none twice.

    Raises:
        ConfigError: as `check_max_parallelism`.
    """
    check_max_parallelism(max_parallelism, parallelism)
    return [range_of(index, parallelism, max_parallelism) for index in range(parallelism)]


def range_of(index: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """The key groups of one subtask, as in `ranges`."""
    first, last = (-(-bound * max_parallelism // parallelism) for bound in (index, index + 1))
    return KeyGroupRange(first, last)


def default_max_parallelism(parallelism: int) -> int:
    """Half as much again as the parallelism, as a power of two between 128 and 32,768."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), MIN_DEFAULT_MAX_PARALLELISM), UPPER_MAX_PARALLELISM)


def check_max_parallelism(max_parallelism: int, parallelism: int = 1) -> None:
    """Refuse a max parallelism that cannot work.

    Raises:
        ConfigError: it is out of range, or below the parallelism.
    """
    if not 1 <= max_parallelism <= UPPER_MAX_PARALLELISM:
        raise ConfigError(
            f"max parallelism is out of range; got {max_parallelism}; expected 1 to {UPPER_MAX_PARALLELISM}"
        )
    if parallelism < 1:
        raise ConfigError(f"parallelism is out of range; got {parallelism}; expected at least 1")
    if parallelism > max_parallelism:
        raise ConfigError(
            f"parallelism exceeds max parallelism; got {parallelism}; expected at most {max_parallelism}; raise "
            "the max parallelism, for existing state through a canonical savepoint"
        )


# Extension numbers are persisted, and a key's group follows from its bytes: never give one another meaning.
_BIG_INT, _DECIMAL, _UUID, _DATE, _TIME, _DATETIME, _DURATION, _ENUM, _RECORD, _ROW = range(1, 11)

_PLAIN: Final = frozenset({str, int, float, bool, bytes, types.NoneType})


def _pack(key: Any) -> Any:
    """A canonical key in terms of msgpack and extensions; a tuple is an array, because no key is a list."""
    kind = type(key)
    if kind is int and not -(2**63) <= key < 2**64:
        return _extension(_BIG_INT, str(hex(key)))
    if kind in _PLAIN:
        return key
    if kind is tuple:
        return list(map(_pack, key))
    if packer := _PACKERS.get(kind):
        code, plain = packer(key)
        return _extension(code, plain)
    if kind is Row:
        return _extension(_ROW, [int(key.get_row_kind()), list(key.names), *map(_pack, key)])
    if isinstance(key, enum.Enum):
        return _extension(_ENUM, [class_name(kind), key.value if isinstance(key, enum.Flag) else key.name])
    if record_fields(kind) is None:
        raise RecordError(f"{kind.__name__} is not a canonical key; pass it through canonical()")
    return _extension(_RECORD, [class_name(kind), *map(_pack, record_entry(kind).encode(key))])


def _unpack(code: int, data: memoryview) -> Any:
    if code not in _UNPACKERS:
        raise StateFormatError(
            f"unknown key extension {code}; the key was written by a newer version of tidegate"
        )
    return _UNPACKERS[code](_decode(data))


def _extension(code: int, plain: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(plain))


def _tuples(plain: Any) -> Any:
    return tuple(map(_tuples, plain)) if type(plain) is list else plain


def _find_member(parts: list[Any]) -> Any:
    cls: Any = find_class(parts[0])
    return cls(parts[1]) if issubclass(cls, enum.Flag) else cls[parts[1]]


def _find_record(parts: list[Any]) -> Any:
    return record_entry(find_class(parts[0])).decode(tuple(map(_tuples, parts[1:])))


def _find_row(parts: list[Any]) -> Row:
    return Row.of(list(map(_tuples, parts[2:])), parts[1], RowKind(parts[0]))


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ext_hook=_unpack).decode
_PACKERS: Final[dict[type[Any], Callable[[Any], tuple[int, Any]]]] = {
    decimal.Decimal: lambda key: (_DECIMAL, str(key)),
    uuid.UUID: lambda key: (_UUID, key.bytes),
    datetime.date: lambda key: (_DATE, key.isoformat()),
    datetime.time: lambda key: (_TIME, key.isoformat()),
    datetime.datetime: lambda key: (_DATETIME, key.isoformat()),
    datetime.timedelta: lambda key: (_DURATION, [key.days, key.seconds, key.microseconds]),
}
_UNPACKERS: Final[dict[int, Callable[[Any], Any]]] = {
    _BIG_INT: lambda text: int(text, 16),
    _DECIMAL: decimal.Decimal,
    _UUID: lambda data: uuid.UUID(bytes=data),
    _DATE: datetime.date.fromisoformat,
    _TIME: datetime.time.fromisoformat,
    _DATETIME: datetime.datetime.fromisoformat,
    _DURATION: lambda parts: datetime.timedelta(*parts),
    _ENUM: _find_member,
    _RECORD: _find_record,
    _ROW: _find_row,
}
