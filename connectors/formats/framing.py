"""Wire format of messages with a schema registry: the bytes in front of each message.

A zero, the number of the schema in four bytes, and for Protobuf which message type of the schema's file it is: the
path of positions to it, as zigzag varints after their count; the first type of the file is a single zero.

Example:
    >>> unframed(framed(7) + b"payload")
    (7, b'payload')
    >>> head = framed(7, (2, 0))
    >>> indexes(unframed(head + b"payload")[1])
    ((2, 0), b'payload')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.errors import RecordError

__all__ = ["framed", "indexes", "unframed"]

_HEAD: Final = 5
_MOST: Final = 64
"""Message types nest no deeper than that in any file a compiler takes."""


def framed(schema: int, path: Sequence[int] | None = None) -> bytes:
    """The prefix of a message with a schema; `path` leads to its type in a Protobuf file."""
    head = b"\0" + schema.to_bytes(4, "big")
    if path is None:
        return head
    return head + (b"\0" if tuple(path) == (0,) else b"".join(map(_varint, (len(path), *path))))


def unframed(message: bytes) -> tuple[int, bytes]:
    """The number of the schema, and what follows it.

    Raises:
        RecordError: the message does not begin like that.
    """
    if len(message) < _HEAD:
        raise RecordError(
            f"the message has {len(message)} bytes; expected a zero byte and a schema id first, as producers with "
            "a schema registry write them"
        )
    if message[0] != 0:
        raise RecordError(
            f"the message starts with byte {message[0]:#04x}; expected the magic byte 0x00 of a schema registry; "
            "it was written without a schema registry"
        )
    return int.from_bytes(message[1:_HEAD], "big"), message[_HEAD:]


def indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path to a Protobuf message type, and what follows it.

    Raises:
        RecordError: it is cut off or makes no sense.
    """
    count, at = _number(data, 0)
    if not 0 <= count <= _MOST:
        raise RecordError(f"the message has {count} message indexes; expected at most {_MOST}")
    path = []
    for _ in range(count):
        position, at = _number(data, at)
        path.append(position)
    return tuple(path) or (0,), data[at:]


def _varint(number: int) -> bytes:
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*found, left))


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(len(data), at + 5)):
        value |= (data[position] & 0x7F) << shift
        if data[position] < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    raise RecordError("the message indexes are truncated; expected zigzag varints after the schema id")
