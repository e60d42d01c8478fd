"""Ordered map state: a map sorted by key, with first, last and range access.

Entries are stored under the ordered bytes of their keys (`tidegate.ordered`), so a range of keys is a range of
addresses. What is cached is merged with it a chunk at a time. Entries read from the front stay cached, so a small map is
read once, and who takes entries away from the front of a large one does not meet those that are gone again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from tidegate.backends.keyed.asynchronous import AsyncOrderedMap
from tidegate.backends.keyed.collection import ATOMS, Raw, Shelf, Values
from tidegate.backends.keyed.descriptors import MapStateDescriptor
from tidegate.backends.keyed.map_state import GONE, LARGEST, UNREAD, MapContent, MapState
from tidegate.backends.keyed.row import Cursor, Row
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Entry, Materialisation
from tidegate.ordered import KeyOrder, ordered_value

__all__ = ["OrderedMapState"]

K = TypeVar("K")
V = TypeVar("V")

_FEW: Final = 32
"""As many entries are read at once at first, and twice as many each time, up to `LARGEST`."""


class OrderedMapState(MapState[K, V], AsyncOrderedMap[K, V]):
    """A map for the current key, sorted by map key; made by `KeyedStore.state`, used by user functions.

    A range begins at `first` and ends before `last`; None leaves that end open, and so does not mean a key. Of keys that
    are tuples, a bound may be the first parts. Entries that are put during an iteration may or may not be part of it.
    """

    __slots__ = ()

    def __init__(
        self,
        descriptor: MapStateDescriptor,
        values: Values,
        entry: StateEntry,
        cursor: Cursor,
        materialisation: Materialisation,
    ) -> None:
        super().__init__(descriptor, values, entry, cursor, materialisation)
        self._canonical = KeyOrder(descriptor.key_type_info)
        self._themselves = frozenset()  # no key is its bytes

    def put(self, key: K, value: V) -> None:
        """Store a value under a map key; raises as that of a plain map does."""
        row = self._cursor.row
        content = self.content(row)
        content.put(self._canonical(key), value, row.key)
        self._mark(row, content)

    def first(self) -> tuple[K, V] | None:
        """The entry with the smallest key, None if there is none."""
        return next(self.range(), None)

    def last(self) -> tuple[K, V] | None:
        """The entry with the largest key, None if there is none."""
        return next(self.range(reverse=True), None)

    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """The entries with first <= key < last, ascending or in reverse; the map may be changed during the iteration."""
        row = self._cursor.row
        content = self.content(row)
        return content.shown(*self._bounds(first, last), partial(self._mark, row, content), reverse=reverse)

    def remove_range(self, first: K | None = None, last: K | None = None) -> None:
        """Forget the entries with first <= key < last."""
        row = self._cursor.row
        content = self.content(row)
        for key, _ in content.walk(*self._bounds(first, last)):
            content.remove(key)
        self._mark(row, content)

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries by key; the map may be changed during the iteration."""
        return OrderedMapState.range(self)

    def keys(self) -> Iterator[K]:
        """All map keys in order."""
        return (ordered_value(key) for key, _ in self.content(self._cursor.row).walk())

    def content(self, row: Row) -> OrderedContent:
        """What is known of a row's map."""
        held = row.values[self._slot]
        if type(held) is not OrderedContent:
            shelf = Shelf(self._materialisation, self._state, row.address)
            held = row.values[self._slot] = OrderedContent(self._values, shelf, stored=held is not None)
        return held

    def _bounds(self, first: K | None, last: K | None) -> tuple[bytes, bytes | None]:
        bound = cast("KeyOrder", self._canonical).bound
        return b"" if first is None else bound(first), None if last is None else bound(last)


class _Part(NamedTuple):
    """Subkeys in the order of a walk, those of them that are stored and not cached, and the range that is left."""

    keys: list[bytes]
    stored: dict[bytes, bytes]
    rest: tuple[bytes, bytes | None] | None


class OrderedContent(MapContent):
    """Entries of one ordered map since the last barrier, by subkey."""

    __slots__ = ("_front", "_new", "_order")

    def __init__(self, values: Values, shelf: Shelf, *, stored: bool) -> None:
        super().__init__(values, shelf, stored=stored)
        self._order: list[bytes] = []
        """Subkeys of cached entries, sorted; all those that are not stored are among them or in `_new`."""
        self._new: list[bytes] = []
        self._front: bytes | None = b"" if stored else None
        """Everything stored below this subkey is cached, and in order; None: everything is."""

    @staticmethod
    def subkey(key: bytes) -> bytes:
        """The keys of the cache are subkeys already."""
        return key

    def put(self, key: bytes, value: Any, of: Any) -> None:
        """Store a value; `of` is the record's key, for messages."""
        if self.cached.get(key, GONE) is GONE:
            self._new.append(key)
        super().put(key, value, of)

    def remove(self, key: bytes) -> None:
        """Forget a subkey."""
        if key in self.cached or (self._front is not None and key >= self._front):
            super().remove(key)
        order = self._sorted()
        place = bisect_left(order, key)
        if place < len(order) and order[place] == key:
            del order[place]

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._forget_order(None)

    def walk(
        self, first: bytes = b"", last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, Any]]:
        """The entries with first <= subkey < last, as `live` takes them."""
        for part in self._parts(first, last, reverse=reverse):
            for key in part.keys:
                found = self.cached.get(key, UNREAD)
                if found is UNREAD and self._stored and key in part.stored:
                    yield key, Raw(part.stored[key])
                elif found is not UNREAD and found is not GONE:
                    yield key, found

    def shown(
        self, first: bytes, last: bytes | None, mark: Callable[[], None], *, reverse: bool
    ) -> Iterator[tuple[Any, Any]]:
        """The entries with first <= subkey < last as keys and live values; `mark` is called for mutable values."""
        cached, decode = self.cached, self._values.decode
        for part in self._parts(first, last, reverse=reverse):
            stored = part.stored
            for key in part.keys:
                found = cached.get(key, UNREAD)
                if found is UNREAD:
                    if not self._stored or key not in stored:
                        continue  # cleared during the iteration
                    found = decode(stored[key])
                    if type(found) in ATOMS:
                        yield ordered_value(key), found
                        continue
                    found = Raw(stored[key])
                if found is not GONE:
                    value = self.live(key, found)
                    mark()
                    yield ordered_value(key), value

    def _parts(self, first: bytes, last: bytes | None, *, reverse: bool) -> Iterator[_Part]:
        rest: tuple[bytes, bytes | None] | None = (first, last)
        count = _FEW
        while rest is not None:
            part = self._down(*rest, count) if reverse else self._up(*rest, count)
            yield part
            rest = part.rest
            count = min(2 * count, LARGEST)

    def settle(self, entries: list[Entry]) -> bytes | None:
        """Encode what changed, as that of a plain map."""
        kept = super().settle(entries)
        if not self.cached:
            self._forget_order(b"" if self._stored else None)
        for key in [key for key, found in self.cached.items() if found is GONE]:
            del self.cached[key]
        return kept

    def lacks(self, key: bytes) -> bool:
        """Whether only the store knows if a subkey has a value."""
        return self._front is not None and key >= self._front and key not in self.cached

    def _up(self, first: bytes, last: bytes | None, count: int) -> _Part:
        front = self._front
        if front is None or first < front:
            end = last if front is None or (last is not None and last < front) else front
            keys = self._cached_between(first, end, count)
            if len(keys) == count:
                return _Part(keys, {}, (keys[-1] + b"\0", last))
            return _Part(keys, {}, None if end == last else (front or b"", last))
        chunk = self._shelf.some(first, last, count)
        end = chunk[-1][0] + b"\0" if len(chunk) == count else last
        if first == front and len(self.cached) + len(chunk) <= LARGEST:
            for key, data in chunk:
                if self.cached.setdefault(key, Raw(data)) is not GONE:
                    self._new.append(key)
            self._front = end
        return self._merged(chunk, (first, end), None if end == last else (end or b"", last))

    def _down(self, first: bytes, last: bytes | None, count: int) -> _Part:
        if self._front == b"":
            self._up(b"", None, _FEW)  # which is all of a small map
        front = self._front
        if front is None or (last is not None and last <= front):
            keys = self._cached_between(first, last, -count)
            keys.reverse()
            return _Part(keys, {}, (first, keys[-1]) if len(keys) == count else None)
        begin = max(first, front)
        chunk = self._shelf.some(begin, last, count, reverse=True)
        if len(chunk) == count:
            begin = chunk[-1][0]
        chunk.reverse()
        part = self._merged(chunk, (begin, last), None if begin == first else (first, begin))
        part.keys.reverse()
        return part

    def _merged(
        self,
        chunk: list[tuple[bytes, bytes]],
        within: tuple[bytes, bytes | None],
        rest: tuple[bytes, bytes | None] | None,
    ) -> _Part:
        stored = dict(chunk)
        known = self._cached_between(*within)
        return _Part(sorted(stored.keys() | known) if known else list(stored), stored, rest)

    def _cached_between(self, first: bytes, last: bytes | None, count: int | None = None) -> list[bytes]:
        """Those of a range in order: all, the first `count`, or the last ones if that is negative."""
        order = self._sorted()
        begin, end = bisect_left(order, first), len(order) if last is None else bisect_left(order, last)
        if count is not None:
            begin, end = (begin, min(end, begin + count)) if count > 0 else (max(begin, end + count), end)
        return order[begin:end]

    def _sorted(self) -> list[bytes]:
        if len(self._new) > _FEW:
            self._order = sorted({*self._order, *self._new})
        else:
            for key in self._new:
                place = bisect_left(self._order, key)
                if place == len(self._order) or self._order[place] != key:
                    insort(self._order, key)
        self._new.clear()
        return self._order

    def _forget_order(self, front: bytes | None) -> None:
        self._order.clear()
        self._new.clear()
        self._front = front
