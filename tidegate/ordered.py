"""Order-preserving key encoding for ordered map state: the bytes sort as the keys do.

Comparing two encoded keys as bytes compares the keys as Python does. The bytes contain the type, so they are decoded without
the declared type. Rules where Python has none or more than one: None comes before everything, False before
True, there is one zero (-0.0 is 0.0), NaN is refused, equal decimals are one (1.0 is 1.00), equal moments are one
(in UTC), and moments without a zone come before those with one. A shorter tuple comes before the longer ones that start
with it, so it is a bound of a range over them.

An int is one byte for its sign and length, then its bytes; a str or bytes ends with a zero, and a zero or one in it is
escaped; a float is its bits with the sign flipped, or all of them if it is negative; a tuple is its parts.

Example:
    >>> keys = [(2, "b"), (2,), (-7, "a"), (2, None)]
    >>> [ordered_value(data) for data in sorted(map(ordered_bytes, keys))]
    [(-7, 'a'), (2,), (2, None), (2, 'b')]
"""

from __future__ import annotations

import datetime
import decimal
import struct
import types
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tidegate.canonical import canonical, themselves
from tidegate.checks import shorten
from tidegate.errors import ConfigError, RecordError, StateFormatError
from tidegate.types import Kind, TypeInformation

__all__ = ["KeyOrder", "ordered_bytes", "ordered_value"]

# These numbers are persisted, and their order is the order of keys: never give one another meaning.
_NONE, _FALSE, _TRUE = 0x01, 0x02, 0x03
_ZERO: Final = 0x20
_MANY: Final = 0x10
"""An int of n bytes, up to 15, starts with `_ZERO` + n, or - n if it is negative; of more, with 0x30 or 0x10."""
_FLOAT, _TEXT, _BYTES, _DECIMAL = 0x40, 0x50, 0x51, 0x60
_DATE, _TIME, _LOCAL, _INSTANT, _DURATION, _UUID, _TUPLE = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x80
_END: Final = b"\0"

_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_FIRST: Final = datetime.datetime(1, 1, 1)  # moments without a zone are counted from it
_FIRST_UTC: Final = _FIRST.replace(tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_FLIPPED: Final = bytes(range(255, -1, -1))

_EXPECTED: Final = "bool, int, float, str, bytes, Decimal, UUID, a date, a time or a tuple of them"
_ORDERED: Final = frozenset(
    {
        Kind.BOOLEAN,
        Kind.BYTE,
        Kind.SHORT,
        Kind.INT,
        Kind.LONG,
        Kind.BIG_INT,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.DECIMAL,
        Kind.STRING,
        Kind.BYTES,
        Kind.DATE,
        Kind.TIME,
        Kind.DATETIME,
        Kind.TIMESTAMP,
        Kind.INSTANT,
        Kind.DURATION,
        Kind.UUID,
    }
)


def ordered_bytes(key: Any) -> bytes:
    """The bytes of a canonical key.

    Raises:
        RecordError: values of its type have no order here, or it is NaN, or a str that is not valid Unicode.
    """
    return _put(key, True)


def ordered_value(data: bytes) -> Any:
    """The key of bytes written by `ordered_bytes`.

    Raises:
        StateFormatError: no key has these bytes.
    """
    size = len(data) - 1
    if 0 <= size < _MANY and data[0] == _ZERO + size:
        return int.from_bytes(data[1:], "big")  # most keys, without the calls below
    try:
        value, end = _take(data, 0)
    except (IndexError, ValueError, struct.error, OverflowError, ArithmeticError) as error:
        raise _unreadable(data) from error
    if end != len(data):
        raise _unreadable(data)
    return value


class KeyOrder:
    """Makes the bytes of keys of a declared type, after coercing them where nothing is lost.

    Raises:
        ConfigError: keys of that type have no order; says which part of it has none.

    Example:
        >>> from tidegate.types import Types
        >>> order = KeyOrder(Types.TUPLE([Types.LONG(), Types.STRING()]))
        >>> order.bound((7,)) < order((7, "a")) < order.bound((8,))
        True
    """

    __slots__ = ("_as_is", "_info")

    def __init__(self, info: TypeInformation | None) -> None:
        if info is None:
            raise ConfigError(f"got no key type; expected {_EXPECTED}")
        _check(info, within=False)
        self._info = info
        self._as_is: Any = _taken_as_is(info)
        """The classes of keys that are canonical as they are; of tuples, those of each part."""
        if info.kind is Kind.TUPLE:
            self._as_is = tuple(map(_taken_as_is, info.items))

    def __call__(self, key: Any) -> bytes:
        """The bytes of a key.

        Raises:
            RecordError: it is not of the type, is NaN, or text that is not valid Unicode.
        """
        as_is = self._as_is
        if type(key) is tuple and type(as_is) is tuple and len(key) == len(as_is):
            for part, kinds in zip(key, as_is, strict=True):
                if type(part) not in kinds:
                    break
            else:
                return _put_tuple(key, True)
        elif type(key) in as_is:
            return _put(key, True)
        return _put(canonical(key, self._info), True)

    def bound(self, key: Any) -> bytes:
        """The bytes of a bound of a range: of a key, or of the first parts of a tuple."""
        items = self._info.items
        if self._info.kind is Kind.TUPLE and isinstance(key, tuple) and len(key) < len(items):
            return _put(canonical(key, TypeInformation(Kind.TUPLE, items[: len(key)])), True)
        return self(key)


def _taken_as_is(info: TypeInformation) -> frozenset[type[Any]]:
    if info.kind is Kind.OPTIONAL:
        return _taken_as_is(info.items[0]) | {types.NoneType}
    return frozenset({float}) if info.kind in (Kind.FLOAT, Kind.DOUBLE) else themselves(info)


def _check(info: TypeInformation, *, within: bool) -> None:
    match info.kind:
        case Kind.TUPLE | Kind.VARIADIC:
            for item in info.items:
                _check(item, within=True)
        case Kind.OPTIONAL if within:
            _check(info.items[0], within=True)
        case kind if kind not in _ORDERED:
            more = "; None is allowed only inside a tuple" if kind is Kind.OPTIONAL else ""
            raise ConfigError(f"keys of type {info} have no order; expected {_EXPECTED}{more}")


def _put(key: Any, last: bool) -> bytes:
    """The bytes of a key; one that is `last` needs no end, because the data has one."""
    put = _PUT.get(type(key))
    if put is None:
        raise RecordError(f"{type(key).__name__} {shorten(key)} cannot be ordered; declare the key type")
    return put(key, last)


def _put_int(key: int, last: bool) -> bytes:
    size = (key.bit_length() + 7) >> 3
    if size >= _MANY:
        return _put_large(key, size)
    if key >= 0:
        return bytes((_ZERO + size,)) + key.to_bytes(size, "big")
    return bytes((_ZERO - size,)) + (key + (1 << 8 * size) - 1).to_bytes(size, "big")


def _put_large(key: int, size: int) -> bytes:
    data = size.to_bytes(4, "big") + abs(key).to_bytes(size, "big")
    return bytes((_ZERO + _MANY,)) + data if key > 0 else bytes((_ZERO - _MANY,)) + data.translate(_FLIPPED)


def _put_float(key: float, last: bool) -> bytes:
    if key != key:
        raise RecordError("float nan cannot be ordered; replace it, for instance by None")
    (bits,) = _BITS.unpack(_DOUBLE.pack(key + 0.0))
    return bytes((_FLOAT,)) + _BITS.pack(bits ^ (_ALL if bits & _SIGN else _SIGN))


def _put_text(key: str, last: bool) -> bytes:
    try:
        data = key.encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"key {key!r} is not valid Unicode; use bytes") from error
    return b"\x50" + _ended(data, last)


def _put_bytes(key: bytes, last: bool) -> bytes:
    return b"\x51" + _ended(key, last)


def _ended(data: bytes, last: bool) -> bytes:
    if b"\1" in data or b"\0" in data:
        data = data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
    return data if last else data + _END


def _put_decimal(key: decimal.Decimal, last: bool) -> bytes:
    """Sign; then how many digits stand before the point, and the digits in pairs, all of it flipped below zero."""
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):
        if key.is_nan():
            raise RecordError("Decimal NaN cannot be ordered; replace it, for instance by None")
        return bytes((_DECIMAL, 1 if sign else 5))
    text = "".join(map(str, digits)).lstrip("0")
    exponent += len(text)
    text = text.rstrip("0")
    if not text:
        return bytes((_DECIMAL, 3))
    text += "0" * (len(text) % 2)
    pairs = bytes(int(text[place : place + 2]) + 1 for place in range(0, len(text), 2))
    data = _put_int(exponent, False) + pairs + _END
    return bytes((_DECIMAL, 2)) + data.translate(_FLIPPED) if sign else bytes((_DECIMAL, 4)) + data


def _put_tuple(key: tuple[Any, ...], last: bool) -> bytes:
    inner = len(key) - 1
    parts = [_put(part, last and place == inner) for place, part in enumerate(key)]
    return b"\x80" + b"".join(parts) if last else b"\x80" + b"".join(parts) + _END


def _put_moment(key: datetime.datetime, last: bool) -> bytes:
    if key.tzinfo is None:
        return bytes((_LOCAL,)) + _put_int((key - _FIRST) // _MICROSECOND, last)
    return bytes((_INSTANT,)) + _put_int((key - _FIRST_UTC) // _MICROSECOND, last)


def _put_time(key: datetime.time, last: bool) -> bytes:
    if key.tzinfo is not None:
        raise RecordError(f"time {key} has a time zone; use a datetime in UTC or a time without a time zone")
    seconds = (key.hour * 60 + key.minute) * 60 + key.second
    return bytes((_TIME,)) + _put_int(seconds * 1_000_000 + key.microsecond, last)


def _take(data: bytes, at: int) -> tuple[Any, int]:
    """The value that begins there, and where the next one does."""
    tag = data[at]
    at += 1
    if _ZERO - _MANY <= tag <= _ZERO + _MANY:
        return _take_int(data, at, tag)
    return _TAKE[tag](data, at) if tag in _TAKE else _unknown(data)


def _take_int(data: bytes, at: int, tag: int) -> tuple[int, int]:
    if tag in (_ZERO - _MANY, _ZERO + _MANY):
        return _take_large(data, at, negative=tag < _ZERO)
    size = abs(tag - _ZERO)
    end = at + size
    value = int.from_bytes(data[at:end], "big")
    if end > len(data):
        raise _unreadable(data)
    return (value if tag >= _ZERO else value - (1 << 8 * size) + 1), end


def _take_large(data: bytes, at: int, *, negative: bool) -> tuple[int, int]:
    plain = data[at:].translate(_FLIPPED) if negative else data[at:]
    size = int.from_bytes(plain[:4], "big")
    if len(plain) < 4 + size:
        raise _unreadable(data)
    value = int.from_bytes(plain[4 : 4 + size], "big")
    return (-value if negative else value), at + 4 + size


def _take_float(data: bytes, at: int) -> tuple[float, int]:
    (bits,) = _BITS.unpack_from(data, at)
    (value,) = _DOUBLE.unpack(_BITS.pack(bits ^ (_SIGN if bits & _SIGN else _ALL)))
    return value, at + 8


def _take_ended(data: bytes, at: int) -> tuple[bytes, int]:
    end = data.find(_END, at)
    found = data[at:] if end < 0 else data[at:end]
    if b"\1" in found:
        found = found.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1")
    return found, len(data) if end < 0 else end + 1


def _take_text(data: bytes, at: int) -> tuple[str, int]:
    found, end = _take_ended(data, at)
    return found.decode(), end


def _take_decimal(data: bytes, at: int) -> tuple[decimal.Decimal, int]:
    sign = data[at]
    if sign in _SPECIAL:
        return _SPECIAL[sign], at + 1
    plain = data[at + 1 :].translate(_FLIPPED) if sign < 3 else data[at + 1 :]
    exponent, first = _take(plain, 0)
    end = plain.index(_END, first)
    text = "".join(f"{pair - 1:02}" for pair in plain[first:end]).rstrip("0")
    digits = tuple(map(int, text))
    return decimal.Decimal((int(sign < 3), digits, exponent - len(digits))), at + 1 + end + 1


def _take_tuple(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    parts: list[Any] = []
    while at < len(data):
        if data[at] == 0:
            return tuple(parts), at + 1
        part, at = _take(data, at)
        parts.append(part)
    return tuple(parts), at


def _counted(made: Callable[[int], Any], data: bytes, at: int) -> tuple[Any, int]:
    count, end = _take(data, at)
    return made(count), end


def _time_of(count: int) -> datetime.time:
    return (_FIRST + count * _MICROSECOND).time()


def _unknown(data: bytes) -> tuple[Any, int]:
    raise _unreadable(data)


def _unreadable(data: bytes) -> StateFormatError:
    return StateFormatError(
        f"invalid bytes of an ordered key; got {data[:40].hex()}; upgrade tidegate or restore an older checkpoint"
    )


_DOUBLE: Final = struct.Struct(">d")
_BITS: Final = struct.Struct(">Q")
_SPECIAL: Final = {
    1: decimal.Decimal("-Infinity"),
    3: decimal.Decimal(0),
    5: decimal.Decimal("Infinity"),
}
_PUT: Final[dict[type[Any], Callable[[Any, bool], bytes]]] = {
    types.NoneType: lambda key, last: bytes((_NONE,)),
    bool: lambda key, last: bytes((_TRUE if key else _FALSE,)),
    int: _put_int,
    float: _put_float,
    str: _put_text,
    bytes: _put_bytes,
    decimal.Decimal: _put_decimal,
    datetime.date: lambda key, last: bytes((_DATE,)) + _put_int(key.toordinal(), last),
    datetime.time: _put_time,
    datetime.datetime: _put_moment,
    datetime.timedelta: lambda key, last: bytes((_DURATION,)) + _put_int(key // _MICROSECOND, last),
    uuid.UUID: lambda key, last: bytes((_UUID,)) + key.bytes,
    tuple: _put_tuple,
}
_TAKE: Final[dict[int, Callable[[bytes, int], tuple[Any, int]]]] = {
    _NONE: lambda data, at: (None, at),
    _FALSE: lambda data, at: (False, at),
    _TRUE: lambda data, at: (True, at),
    _FLOAT: _take_float,
    _TEXT: _take_text,
    _BYTES: _take_ended,
    _DECIMAL: _take_decimal,
    _DATE: partial(_counted, datetime.date.fromordinal),
    _TIME: partial(_counted, _time_of),
    _LOCAL: partial(_counted, lambda count: _FIRST + count * _MICROSECOND),
    _INSTANT: partial(_counted, lambda count: _FIRST_UTC + count * _MICROSECOND),
    _DURATION: partial(_counted, lambda count: count * _MICROSECOND),
    _UUID: lambda data, at: (uuid.UUID(bytes=data[at : at + 16]), at + 16),
    _TUPLE: _take_tuple,
}
