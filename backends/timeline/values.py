"""Decoding of stored values without the program that wrote them.

What a declared type stores comes back as plain values: a record's fields under their names or as a list, a tuple as a
list. What only the program can read, such as a pickle, stays opaque: looking at state never runs code of its values.

Example:
    >>> spelled("ann"), spelled("7"), spelled("'7'"), spelled("('ann', 7)"), spelled("null")
    ('ann', 7, '7', ('ann', 7), None)
"""

from __future__ import annotations

import ast
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.backends.keyed.expiring import STAMP
from tidegate.backends.keyed.table import MAPS, StateEntry
from tidegate.errors import StateFormatError
from tidegate.keys import canonical, key_bytes, key_from_bytes
from tidegate.untyped import SelfDescribing

__all__ = ["Opaque", "key_of", "keys_of", "spelled", "sub_of", "value_of"]

_PLAIN: Final = msgspec.msgpack.Decoder()
_SELF_DESCRIBING: Final = SelfDescribing(pickle="forbid")


class Opaque(NamedTuple):
    """A value that is shown by its size and codec alone."""

    codec: str
    data: bytes

    def __repr__(self) -> str:
        return f"<{len(self.data)} bytes of {self.codec}>"


def value_of(state: StateEntry, data: bytes) -> Any:
    """The value that a state stored."""
    if state.kind == "timers":
        return None
    return _decoded(state.codec, data[STAMP.size :] if state.expires else data)


def key_of(data: bytes) -> Any:
    """A key as a function sees it, as far as its class is known here."""
    try:
        return key_from_bytes(data)
    except StateFormatError:
        return Opaque("key", data)


def sub_of(state: StateEntry, sub: Any) -> Any:
    """The part that identifies a record within its key: a position, a timestamp, a map key."""
    return key_of(sub) if state.kind in MAPS else sub


def spelled(text: str) -> Any:
    """The value that a text of the command line means: a Python literal, JSON, or else itself."""
    for read in (ast.literal_eval, _json):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    return text


def keys_of(value: Any) -> frozenset[bytes]:
    """The bytes under which operators may hold a key: declared types keep what Python calls equal apart.

    Raises:
        RecordError: it cannot be a key.
    """
    plain = canonical(value)
    alike = [declared(plain) for declared in (float, bool) if type(plain) is int and declared(plain) == plain]
    return frozenset(map(key_bytes, [plain, *alike]))


def _decoded(codec: str, data: bytes) -> Any:
    try:
        match codec:
            case "msgspec":
                return _PLAIN.decode(data)
            case "self-describing":
                return _SELF_DESCRIBING.decode(data)
    except (StateFormatError, msgspec.DecodeError, ValueError):
        pass
    return Opaque(codec, data)


def _json(text: str) -> Any:
    return _tuples(msgspec.json.decode(text))


def _tuples(plain: Any) -> Any:
    """No key is a list."""
    return tuple(map(_tuples, plain)) if isinstance(plain, list) else plain
