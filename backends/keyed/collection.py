"""Common part of list and map state: states with many entries per key.

A row keeps a few bytes of a collection, which say that it has something; its entries are stored outside the row, under the
same key and namespace. What was read or written since the last barrier hangs on the row, so it is settled, evicted
and forgotten together with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from tidegate.backends.keyed.address import (
    after,
    by_subkey,
    entry_address,
    entry_bound,
    entry_prefix,
    subkey_of,
)
from tidegate.backends.spi import Address, Entry, Materialisation
from tidegate.errors import RecordError
from tidegate.isolation import is_immutable, isolate
from tidegate.serde import Codec

__all__ = ["ATOMS", "Collection", "Live", "Raw", "Shelf", "Values"]

ATOMS: Final = frozenset({bool, bytes, float, int, str})
"""Types whose values can stay in a row over a barrier."""


class Raw(msgspec.Struct, eq=False, gc=False):
    """A value that is stored and not decoded yet."""

    data: bytes


class Live:
    """A value in a row that can change in place until the next barrier."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Collection(ABC):
    """What is known of one collection of one row since the last barrier."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        self.touched = False
        """Whether its bytes may differ from what is stored."""

    @abstractmethod
    def clear(self) -> None:
        """Forget all entries."""

    @abstractmethod
    def settle(self, entries: list[Entry]) -> bytes | None:
        """Append the changed entries; returns the bytes for the row, None for an empty collection.

        Raises:
            RecordError: a value cannot be encoded.
        """


class Shelf:
    """Where the entries of one collection stand."""

    __slots__ = ("_materialisation", "_prefix")

    def __init__(self, materialisation: Materialisation, state: int, row: Address) -> None:
        self._materialisation = materialisation
        self._prefix = entry_prefix(row, state)

    def at(self, subkey: bytes) -> Address:
        """The address of an entry."""
        return entry_address(self._prefix, subkey)

    def read(self, subkeys: Iterable[bytes]) -> list[bytes | None]:
        """The bytes of entries, None where there are none."""
        return self._materialisation.get_many([self.at(subkey) for subkey in subkeys])

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries by subkey."""
        for at, data in self._materialisation.scan(self._prefix, after(self._prefix)):
            yield subkey_of(self._prefix, at), data

    def some(
        self, first: bytes, last: bytes | None, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """No more than `limit` entries with first <= subkey < last (None: to the end), by subkey or in reverse."""
        begin, end = entry_bound(self._prefix, first), after(self._prefix)
        if last is not None:
            end = entry_bound(self._prefix, last)
        found = self._materialisation.scan(begin, end, reverse=reverse, limit=limit)
        return by_subkey(self._prefix, found)


class Values:
    """The values of one state on their way in and out."""

    __slots__ = ("_checked", "_codec", "decode", "encode", "encode_each", "name")

    def __init__(self, name: str, codec: Codec) -> None:
        self.name = name
        self._codec = codec
        self._checked: set[type] = set()
        self.encode = codec.encode
        self.encode_each = codec.encode_each
        self.decode = codec.decode

    def accept(self, value: Any, key: Any) -> Any:
        """The value as the state holds it, a copy if it could change.

        Raises:
            RecordError: the codec would not give the same value back; told at the first value of a type, not at
                the barrier.
        """
        kind = type(value)
        if kind not in self._checked:
            try:
                self._codec.encode(value)
            except RecordError as error:
                error.add_note(f"while updating state {self.name!r} of key {key!r}")
                raise
            self._checked.add(kind)
        return value if kind in ATOMS or is_immutable(value) else isolate(value)
