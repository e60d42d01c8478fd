"""Map state: one entry per map key, read and written separately.

Map keys take their canonical form, as the keys of records do: keys that Python calls equal are one. An iteration
merges what is cached with what is stored, in an order that means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from tidegate.backends.keyed.asynchronous import AsyncMap
from tidegate.backends.keyed.collection import ATOMS, Collection, Raw, Shelf, Values
from tidegate.backends.keyed.descriptors import MapStateDescriptor
from tidegate.backends.keyed.row import Cursor, Row
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Address, Entry, Materialisation
from tidegate.canonical import themselves
from tidegate.isolation import is_immutable
from tidegate.keys import canonical, key_bytes, key_from_bytes

__all__ = ["GONE", "LARGEST", "UNREAD", "MapContent", "MapState"]

K = TypeVar("K")
V = TypeVar("V")

GONE: Final = object()
UNREAD: Final = object()
LARGEST: Final = 1_000
"""As many entries of one map stay in memory over a batch."""


class MapState(AsyncMap[K, V]):
    """A map for the current key; made by `KeyedStore.state`, used by user functions.

    What `get`, `values` and `items` give may be changed in place until the next barrier, and that counts.
    """

    __slots__ = (
        "_canonical",
        "_cursor",
        "_materialisation",
        "_slot",
        "_state",
        "_themselves",
        "_usual",
        "_values",
    )

    def __init__(
        self,
        descriptor: MapStateDescriptor,
        values: Values,
        entry: StateEntry,
        cursor: Cursor,
        materialisation: Materialisation,
    ) -> None:
        self._values = values
        self._canonical: Callable[[Any], Any] = partial(canonical, info=descriptor.key_type_info)
        self._themselves = themselves(descriptor.key_type_info)
        # The last type without parts that the codec is known to give back.
        self._usual: type | None = None
        self._slot = entry.slot
        self._state = entry.state
        self._cursor = cursor
        self._materialisation = materialisation

    def get(self, key: K) -> V | None:
        """The value of a map key, None if there is none."""
        row = self._cursor.row
        content: Any = row.values[self._slot]
        if type(content) is not MapContent:
            content = self.content(row)
        if type(key) not in self._themselves:
            key = self._canonical(key)
        found: Any = content.cached.get(key)
        if type(found) in ATOMS:
            return found  # type: ignore[no-any-return] # what was put
        found = content.get(key)
        self._mark(row, content)
        return None if found is GONE else found

    def put(self, key: K, value: V) -> None:
        """Store a value under a map key. A mutable value is copied: later changes to the argument do not count.

        Raises:
            RecordError: the state's codec would not give the same value back, or the key has no canonical form.
        """
        row = self._cursor.row
        content: Any = row.values[self._slot]
        if type(content) is not MapContent:
            content = self.content(row)
        if type(key) not in self._themselves:
            key = self._canonical(key)
        if type(value) is self._usual:
            content.cached[key] = value
            content.before[key] = None
            content.touched = True
        else:
            content.put(key, value, row.key)
            self._usual = type(value) if type(value) in ATOMS else None
        if not row.changed:
            self._cursor.mark(row)
        if len(content.cached) > LARGEST:
            self._cursor.crowded[row] = None

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store several, or pairs of key and value, which is what PyFlink 2.2 takes; raises as `put` does."""
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove a map key; a missing one is ignored."""
        row = self._cursor.row
        content = self.content(row)
        content.remove(self._canonical(key))
        self._mark(row, content)

    def contains(self, key: K) -> bool:
        """Whether a map key has a value."""
        row = self._cursor.row
        content = self.content(row)
        contained = content.contains(self._canonical(key))
        self._mark(row, content)
        return contained

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries; the map may be changed during the iteration."""
        row = self._cursor.row
        content = self.content(row)
        for key, found in content.walk():
            value = content.live(key, found)
            self._mark(row, content)
            yield key, value

    def keys(self) -> Iterator[K]:
        """All map keys."""
        return (key for key, _ in self.content(self._cursor.row).walk())

    def values(self) -> Iterator[V]:
        """All values."""
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        """Whether the map is empty."""
        return self.content(self._cursor.row).is_empty()

    def clear(self) -> None:
        """Forget all entries of the key."""
        row = self._cursor.row
        content = self.content(row)
        content.clear()
        self._mark(row, content)

    def lacking(self, rows: Sequence[Row], keys: Sequence[K]) -> Iterator[tuple[MapContent, Any]]:
        """The maps of rows and those of their map keys, one for each row, that only the store knows."""
        for row, key in zip(rows, keys, strict=True):
            content = self.content(row)
            if type(key) not in self._themselves:
                key = self._canonical(key)
            if content.lacks(key):
                yield content, key
            if len(content.cached) > LARGEST:
                self._cursor.crowded[row] = None

    def content(self, row: Row) -> MapContent:
        """What is known of a row's map."""
        held = row.values[self._slot]
        if type(held) is not MapContent:
            shelf = Shelf(self._materialisation, self._state, row.address)
            held = row.values[self._slot] = MapContent(self._values, shelf, stored=held is not None)
        return held

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def _mark(self, row: Row, content: MapContent) -> None:
        if content.touched and not row.changed:
            self._cursor.mark(row)
        if len(content.cached) > LARGEST:
            self._cursor.crowded[row] = None


class MapContent(Collection):
    """Entries of one map since the last barrier: live, read but not decoded, or gone."""

    __slots__ = ("_shelf", "_stored", "_values", "_wiped", "before", "cached")

    subkey = staticmethod(key_bytes)
    """What a canonical map key is stored under."""

    def __init__(self, values: Values, shelf: Shelf, *, stored: bool) -> None:
        super().__init__()
        self._values = values
        self._shelf = shelf
        self._stored = stored
        """Whether there may be entries that are stored and not cached."""
        self._wiped = False
        """Whether all that is stored is to be removed."""
        self.cached: dict[Any, Any] = {}
        self.before: dict[Any, bytes | None] = {}
        """The touched keys: as what they are stored if they were only read, else None."""

    def get(self, key: Any) -> Any:
        """The live value of a canonical map key, or `GONE`."""
        return self.live(key, self._find(key))

    def contains(self, key: Any) -> bool:
        """Whether a canonical map key has a value."""
        return self._find(key) is not GONE

    def put(self, key: Any, value: Any, of: Any) -> None:
        """Store a value; `of` is the record's key, for messages."""
        if value is not self.cached.get(key, GONE):
            self.cached[key] = self._values.accept(value, of)
        self.before[key] = None
        self.touched = True

    def remove(self, key: Any) -> None:
        """Forget a canonical map key."""
        if self._stored or key in self.cached:
            self.cached[key] = GONE
            self.before[key] = None
            self.touched = True

    def clear(self) -> None:
        """Forget all."""
        self.cached.clear()
        self.before.clear()
        self._wiped = self._wiped or self._stored
        self._stored = False
        self.touched = True

    def is_empty(self) -> bool:
        """Whether no entry is left."""
        return next(self.walk(), None) is None

    def walk(self) -> Iterator[tuple[Any, Any]]:
        """All entries, as `live` takes them."""
        known = dict.fromkeys(self.cached)
        stored = self._shelf.scan() if self._stored else iter(())
        for key in known:
            found = self.cached.get(key, GONE)
            if found is not GONE:
                yield key, found
        for subkey, data in stored:
            key = key_from_bytes(subkey)
            found = self.cached.get(key, UNREAD)
            if found is UNREAD and not self._stored:
                return  # cleared during the iteration
            if key not in known and found is not GONE:
                yield key, Raw(data) if found is UNREAD else found

    def live(self, key: Any, found: Any) -> Any:
        """A found value, decoded; only what could be changed in place is remembered for the barrier."""
        if type(found) is not Raw:
            return found
        value = self._values.decode(found.data)
        if not is_immutable(value):
            self.before.setdefault(key, found.data)
            self.cached[key] = value
            self.touched = True
        elif key in self.cached:
            self.cached[key] = value
        return value

    def settle(self, entries: list[Entry]) -> bytes | None:
        """Encode what changed; a row keeps an empty text for a map with entries."""
        if self._wiped:
            # An entry that is put again is written after its removal.
            entries.extend((self._shelf.at(subkey), None) for subkey, _ in self._shelf.scan())
        for key, before in self.before.items():
            self._settle_entry(key, before, entries)
        if any(self.cached[key] is GONE for key in self.before):
            self._stored = not self.is_empty()
        elif self.before:
            self._stored = True
        self.before.clear()
        self._wiped = self.touched = False
        if len(self.cached) > LARGEST or not self._stored:
            self.cached.clear()
        return b"" if self._stored else None

    def _settle_entry(self, key: Any, before: bytes | None, entries: list[Entry]) -> None:
        at, value = self.at(key), self.cached[key]
        if value is GONE:
            entries.append((at, None))
            return
        data = self._values.encode(value)
        if data != before:
            entries.append((at, data))
        if type(value) not in ATOMS:
            self.cached[key] = Raw(data)

    def lacks(self, key: Any) -> bool:
        """Whether only the store knows if a canonical map key has a value."""
        return self._stored and key not in self.cached

    def at(self, key: Any) -> Address:
        """Where the value of a canonical map key is stored."""
        return self._shelf.at(self.subkey(key))

    def read(self, key: Any, data: bytes | None) -> None:
        """Cache the stored value of a canonical map key."""
        self.cached[key] = GONE if data is None else Raw(data)

    def _find(self, key: Any) -> Any:
        if self.lacks(key):
            (data,) = self._shelf.read([self.subkey(key)])
            self.read(key, data)
        return self.cached.get(key, GONE)
