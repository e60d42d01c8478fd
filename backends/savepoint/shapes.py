"""Column types for stored values, derived from their bytes without the program's classes.

A value is stored as msgpack by most codecs. Where the bytes of all values of a column are the shortest msgpack of
plain values that share a shape, the column has that shape and the same bytes are made from it again. Everything else
(extensions, pickles, ints beyond 64 bits, mixed types) is opaque: the column contains the bytes unchanged.

Example:
    >>> seen = merge(observe(msgspec.msgpack.encode((1, "a"))), observe(msgspec.msgpack.encode((2, None))))
    >>> settled(seen)
    Fields(items=(Atom(kind='int'), Atom(kind='text')), names=None)
    >>> settled(observe(b"no msgpack"))
    Atom(kind='opaque')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

__all__ = [
    "NOTHING",
    "OPAQUE",
    "Atom",
    "Fields",
    "Repeated",
    "Shape",
    "merge",
    "observe",
    "pack",
    "settled",
    "unpack",
]


class Atom(msgspec.Struct, frozen=True, tag="atom"):
    """A value without parts; `nothing` has only been None so far."""

    kind: Literal["nothing", "bool", "int", "float", "text", "bytes", "opaque"]


class Repeated(msgspec.Struct, frozen=True, tag="repeated"):
    """An array of any length whose elements share a shape."""

    item: Shape


class Fields(msgspec.Struct, frozen=True, tag="fields"):
    """A map with these names in this order; without names an array of this length."""

    items: tuple[Shape, ...]
    names: tuple[str, ...] | None = None


Shape: TypeAlias = Atom | Repeated | Fields

NOTHING: Final = Atom("nothing")
OPAQUE: Final = Atom("opaque")

_KINDS: Final[dict[type, Atom]] = {
    type(None): NOTHING,
    bool: Atom("bool"),
    float: Atom("float"),
    str: Atom("text"),
    bytes: Atom("bytes"),
}


def observe(data: bytes) -> Shape:
    """The shape of one value by its bytes."""
    try:
        value = _decode(data)
    except (msgspec.DecodeError, ValueError):
        return OPAQUE
    # NaN differs from itself, so bytes are compared: only what they give back counts.
    return _shape(value) if _encode(value) == data else OPAQUE


def merge(one: Shape, other: Shape) -> Shape:
    """The shape that holds the values of both."""
    match one, other:
        case _ if one == other or other == NOTHING:
            return one
        case Atom("nothing"), _:
            return other
        case Fields(names=left), Fields(names=right) if left == right and len(one.items) == len(other.items):
            return _whole(Fields(tuple(map(merge, one.items, other.items)), left))
        case ((Fields(names=None) | Repeated()), (Fields(names=None) | Repeated())):
            return _whole(Repeated(merge(_item(one), _item(other))))
    return OPAQUE


def settled(shape: Shape) -> Shape:
    """The shape of a column: arrays whose elements share a shape are lists, whatever their lengths were."""
    match shape:
        case Fields(names=None):
            item = _item(shape)
            return Repeated(settled(item)) if item != OPAQUE else Fields(tuple(map(settled, shape.items)))
        case Fields():
            return Fields(tuple(map(settled, shape.items)), shape.names)
        case Repeated():
            return Repeated(settled(shape.item))
    return shape


def unpack(shape: Shape, data: bytes) -> Any:
    """What a column of that shape holds for the bytes of a value."""
    return data if shape == OPAQUE else _named(shape, _decode(data))


def pack(shape: Shape, held: Any) -> bytes:
    """The bytes of a value of a column of that shape."""
    return bytes(held) if shape == OPAQUE else _encode(_unnamed(shape, held))


def _shape(value: Any) -> Shape:
    kind = type(value)
    if kind is int:
        return Atom("int") if -(2**63) <= value < 2**63 else OPAQUE
    if kind is list:
        return _whole(Fields(tuple(map(_shape, value))))
    # No Parquet column is a structure without fields.
    if kind is dict and value and all(type(name) is str for name in value):
        return _whole(Fields(tuple(map(_shape, value.values())), tuple(value)))
    return _KINDS.get(kind, OPAQUE)


def _whole(shape: Repeated | Fields) -> Shape:
    parts = shape.items if isinstance(shape, Fields) else (shape.item,)
    return OPAQUE if OPAQUE in parts else shape


def _item(array: Repeated | Fields) -> Shape:
    parts: Sequence[Shape] = array.items if isinstance(array, Fields) else (array.item,)
    item: Shape = NOTHING
    for part in parts:
        item = merge(item, part)
    return item


def _named(shape: Shape, value: Any) -> Any:
    match shape:
        case _ if value is None:
            return None
        case Repeated():
            return [_named(shape.item, part) for part in value]
        case Fields():
            parts = value if shape.names is None else value.values()
            names = shape.names or [f"f{place}" for place in range(len(shape.items))]
            return {
                name: _named(item, part) for name, item, part in zip(names, shape.items, parts, strict=True)
            }
    return value


def _unnamed(shape: Shape, held: Any) -> Any:
    match shape:
        case _ if held is None:
            return None
        case Repeated():
            return [_unnamed(shape.item, part) for part in held]
        case Fields():
            parts = list(map(_unnamed, shape.items, held.values()))
            return parts if shape.names is None else dict(zip(shape.names, parts, strict=True))
    return held


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
