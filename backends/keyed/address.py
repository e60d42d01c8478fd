"""Addresses of state entries: bytes that sort by key group, state, key, namespace and subkey.

An address is `key group (2 bytes) | state (2 bytes) | key | namespace | subkey`. The last three may hold any bytes,
so a zero byte in them becomes `00 ff` and each ends with `00 00`: no address is the prefix of another, and comparing
two addresses compares group, state, key, namespace and subkey in turn.

Example:
    >>> at = address(7, 0, b"ada")
    >>> split(at)
    Parts(key_group=7, state=0, key=b'ada', namespace=b'', subkey=b'')
    >>> state_prefix(7, 0) <= at < after(state_prefix(7, 0))
    True
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidegate.backends.spi import Address
from tidegate.errors import StateCorruptError
from tidegate.keys import KeyGroupRange

__all__ = [
    "COLLECTIONS",
    "EVENT_TIMERS",
    "GROUP_BYTES",
    "PROCESSING_TIMERS",
    "ROWS",
    "Parts",
    "address",
    "after",
    "by_subkey",
    "entry_address",
    "entry_addresses",
    "entry_bound",
    "entry_prefix",
    "group_of",
    "range_bounds",
    "row_addresses",
    "split",
    "state_of",
    "state_prefix",
    "subkey_of",
    "with_state",
]

ROWS: Final = 0
EVENT_TIMERS: Final = 1
PROCESSING_TIMERS: Final = 2
COLLECTIONS: Final = 16
"""The entries of the list or map in slot n of the rows have state `COLLECTIONS + n`."""

GROUP_BYTES: Final = 2
"""As many bytes at the start of an address are its key group."""

_PREFIX: Final = struct.Struct(">HH")
_END: Final = b"\0\0"
_NO_TAIL: Final = _END + _END
_NO_NAMESPACE: Final = _END + _NO_TAIL
_ESCAPED_ZERO: Final = b"\0\xff"


class Parts(NamedTuple):
    """What an address names."""

    key_group: int
    state: int
    key: bytes
    namespace: bytes
    subkey: bytes


def address(key_group: int, state: int, key: bytes, namespace: bytes = b"", subkey: bytes = b"") -> Address:
    """The address of one entry."""
    tail = _escape(namespace) + _escape(subkey) if namespace or subkey else _NO_TAIL
    return _PREFIX.pack(key_group, state) + _escape(key) + tail


def row_addresses(groups: Sequence[int], keys: Sequence[bytes]) -> list[Address]:
    """The addresses of the rows of keys, given their groups."""
    prefixes = {group: state_prefix(group, ROWS) for group in set(groups)}
    if b"\0" in b"".join(keys):
        keys = [key.replace(b"\0", _ESCAPED_ZERO) for key in keys]
    return [prefixes[group] + key + _NO_NAMESPACE for group, key in zip(groups, keys, strict=True)]


def entry_addresses(
    groups: Sequence[int], state: int, keys: Sequence[bytes], namespaces: Sequence[bytes]
) -> list[Address]:
    """`address` of each, of entries without subkeys."""
    prefixes = {group: state_prefix(group, state) for group in set(groups)}
    tails = {each: _END + _escape(each) + _END for each in set(namespaces)}
    return [
        prefixes[group] + key.replace(b"\0", _ESCAPED_ZERO) + tails[namespace]
        for group, key, namespace in zip(groups, keys, namespaces, strict=True)
    ]


def split(at: Address) -> Parts:
    """Split an address into its parts.

    Raises:
        StateCorruptError: no address looks like this.
    """
    parts = at[4:].split(_END)
    # A zero at the end of a part is escaped, so the first `00 00` seen is always the terminator.
    if len(at) < 4 or len(parts) != 4 or parts[3]:
        raise StateCorruptError(
            f"state address {at.hex()} is malformed; expected key, namespace and subkey; "
            "restore an older checkpoint"
        )
    key, namespace, subkey = (part.replace(_ESCAPED_ZERO, b"\0") for part in parts[:3])
    key_group, state = _PREFIX.unpack_from(at)
    return Parts(key_group, state, key, namespace, subkey)


def group_of(at: Address) -> int:
    """The key group of an address."""
    return int.from_bytes(at[:GROUP_BYTES], "big")


def state_of(at: Address) -> int:
    """The number of the state an address belongs to."""
    return int.from_bytes(at[2:4], "big")


def state_prefix(key_group: int, state: int) -> bytes:
    """What the addresses of one state in one key group start with."""
    return _PREFIX.pack(key_group, state)


def entry_prefix(row: Address, state: int) -> bytes:
    """What the entries of a collection start with, given the address of their row."""
    return row[:2] + state.to_bytes(2, "big") + row[4 : -len(_END)]


def entry_address(prefix: bytes, subkey: bytes) -> Address:
    """The address of one entry of a collection."""
    return prefix + _escape(subkey)


def entry_bound(prefix: bytes, subkey: bytes) -> Address:
    """What the entries of a collection with this subkey or a larger one are not below, and all others are."""
    return prefix + subkey.replace(b"\0", _ESCAPED_ZERO)


def subkey_of(prefix: bytes, at: Address) -> bytes:
    """The subkey of an entry of the collection with that prefix."""
    return at[len(prefix) : -2].replace(_ESCAPED_ZERO, b"\0")


def by_subkey(prefix: bytes, entries: Iterable[tuple[Address, bytes]]) -> list[tuple[bytes, bytes]]:
    """Entries of the collection with that prefix by their subkeys, without a call for each."""
    begin = len(prefix)
    return [(at[begin:-2].replace(_ESCAPED_ZERO, b"\0"), data) for at, data in entries]


def with_state(at: Address, state: int) -> Address:
    """The same place in another state."""
    return at[:2] + state.to_bytes(2, "big") + at[4:]


def range_bounds(key_groups: KeyGroupRange) -> tuple[bytes, bytes]:
    """First address of a key-group range and first address beyond it."""
    return key_groups.first.to_bytes(2, "big"), key_groups.last.to_bytes(2, "big")


def after(prefix: bytes) -> bytes:
    """The smallest bytes above everything that starts with `prefix`."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def _escape(part: bytes) -> bytes:
    return part.replace(b"\0", _ESCAPED_ZERO) + _END if b"\0" in part else part + _END
