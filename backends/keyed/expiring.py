"""Keyed state with time to live: the state kinds over timestamped values, elements and entries.

What is stored is the moment of the last write (or read) in milliseconds, then the value. In memory moments are
nanoseconds, as the clock gives them: dividing costs a good part of an access. A read removes what it finds expired.

Example:
    >>> from tidegate.serde import codec_for
    >>> values = TimestampedValues("count", codec_for(None), tuple)
    >>> values.decode(values.encode((5_000_000, "ada")))
    (5000000, 'ada')
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from tidegate.backends.keyed.collection import ATOMS, Live, Values
from tidegate.backends.keyed.descriptors import MapStateDescriptor
from tidegate.backends.keyed.list_state import ListState
from tidegate.backends.keyed.map_state import MapState
from tidegate.backends.keyed.ordered_state import OrderedMapState
from tidegate.backends.keyed.row import Cursor, Row, ValueState
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.keyed.ttl import NS_PER_MS, Lifetime, whole_ms
from tidegate.backends.spi import Materialisation
from tidegate.isolation import is_immutable, isolate
from tidegate.serde import Codec

__all__ = [
    "STAMP",
    "ExpiringListState",
    "ExpiringMapState",
    "ExpiringOrderedMapState",
    "ExpiringValueState",
    "TimestampedValues",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

STAMP: Final = struct.Struct(">q")
"""The moment in front of a stored value, in milliseconds."""


class TimestampedValues(Values):
    """Pairs of a moment and a value, in a tuple or a list as `shape` says, on their way in and out."""

    __slots__ = ("_shape",)

    def __init__(self, name: str, codec: Codec, shape: Callable[[tuple[int, Any]], Any]) -> None:
        super().__init__(name, codec)
        self._shape = shape
        self.encode = self._encode
        self.encode_each = self._encode_each
        self.decode = self._decode

    def accept(self, value: Any, key: Any) -> Any:
        """The pair with the value as the state holds it; raises as that of plain values does."""
        at, given = value
        kept = super().accept(given, key)
        return value if kept is given and type(value) is tuple else self._shape((at, kept))

    def _encode(self, value: Any) -> bytes:
        return STAMP.pack(value[0] // NS_PER_MS) + self._codec.encode(value[1])

    def _encode_each(self, values: Sequence[Any]) -> list[bytes]:
        encoded = self._codec.encode_each([value for _, value in values])
        return [STAMP.pack(at // NS_PER_MS) + data for (at, _), data in zip(values, encoded, strict=True)]

    def _decode(self, data: bytes) -> Any:
        (at,) = STAMP.unpack_from(data)
        return self._shape((at * NS_PER_MS, self._codec.decode(data[STAMP.size :])))


class ExpiringValueState(ValueState[T]):
    """A value that expires."""

    __slots__ = ("_absent", "_life", "_now_ns", "_untouched")

    def __init__(self, values: Values, default: Any, slot: int, cursor: Cursor, life: Lifetime) -> None:
        super().__init__(values, None, slot, cursor)
        self._absent = default
        self._life = life
        self._now_ns = life.now_ns
        self._untouched = 0 if life.refreshed else life.length - NS_PER_MS
        """Nanoseconds since the last update within which a read of an immutable value need not refresh it."""

    def value(self) -> T:
        """The value of the key, the descriptor's default if there is none or it has expired."""
        now = self._now_ns()
        held: Any = self._cursor.row.values[self._slot]
        if type(held) is tuple and now < self._life.due and held[0] > now - self._untouched:
            return held[1]  # type: ignore[no-any-return] # what the codec gave
        return self._value_at(now)  # type: ignore[no-any-return] # as above

    def update(self, value: T | None) -> None:
        """Store a value with a new time to live; raises as that of a plain state does."""
        now = self._now_ns()
        row = self._cursor.row
        if type(value) is not self._usual or now >= self._life.due:
            self._update_at(now, value)
            return
        row.values[self._slot] = (now, value)
        if not row.changed:
            self._cursor.mark(row)

    def reducer(self, combine: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        """As that of a plain state; an expired value is not combined."""

        def take_in(value: Any) -> Any:
            before: Any = self.value()
            after = value if before is None else combine(before, value)
            self.update(after)
            return isolate(after)

        return take_in

    def purge(self, row: Row, limit: int) -> int | None:
        """Remove the value of a row if its moment is not after `limit`; its moment if it stays."""
        before, self._cursor.row = self._cursor.row, row
        try:
            pair = self._pair()
            if pair is None or pair[0] > limit:
                return None if pair is None else int(pair[0])
            self.clear()
            return None
        finally:
            self._cursor.row = before

    def _value_at(self, now: int) -> Any:
        life = self._life
        if now >= life.due:
            life.sweep(now)
        pair: Any = self._pair()
        if pair is None:
            return self._default_value()
        if whole_ms(pair[0]) + life.length <= now:
            self.clear()
            return pair[1] if life.shown else self._default_value()
        if life.refreshed:
            self._keep((now, pair[1]))
        return pair[1]

    def _update_at(self, now: int, value: T | None) -> None:
        life = self._life
        if now >= life.due:
            life.sweep(now)
        if value is None:
            self.clear()
            return
        held = self._cursor.row.values[self._slot]
        if type(held) is Live and held.value[1] is value:
            self._keep((now, value))
            return
        pair: Any = (now, value)
        super().update(pair)
        self._usual = type(value) if type(value) in ATOMS else None

    def _keep(self, pair: tuple[int, Any]) -> None:
        """Give the value that is there another moment."""
        row = self._cursor.row
        held = row.values[self._slot]
        if type(held) is Live:
            held.value = pair
        else:
            row.values[self._slot] = pair
        if not row.changed:
            self._cursor.mark(row)

    def _pair(self) -> Any:
        held: Any = self._cursor.row.values[self._slot]
        return held if type(held) is tuple else self._read(held)

    def _default_value(self) -> Any:
        if is_immutable(self._absent):
            return self._absent
        self.update(self._absent)
        return self._pair()[1]


class ExpiringListState(ListState[T]):
    """A list whose elements expire."""

    __slots__ = ("_life",)

    def __init__(
        self,
        values: Values,
        entry: StateEntry,
        cursor: Cursor,
        materialisation: Materialisation,
        life: Lifetime,
    ) -> None:
        super().__init__(values, entry, cursor, materialisation)
        self._life = life

    def get(self) -> list[T]:
        """The elements that have not expired, in the order they were added."""
        now = self._life.now()
        pairs, alive = self._split(self._cursor.row, now - self._life.length)
        if self._life.refreshed:
            for pair in alive:
                pair[0] = now
        return [value for _, value in (pairs if self._life.shown else alive)]

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements with a new time to live; raises as that of a plain state does."""
        now = self._life.now()
        stamped: Any = [self._life.shape((now, value)) for value in values]
        super().add_all(stamped)

    def purge(self, row: Row, limit: int) -> int | None:
        """Remove the elements of a row with a timestamp up to `limit`; returns the earliest remaining timestamp."""
        _, alive = self._split(row, limit)
        return min((at for at, _ in alive), default=None)

    def _split(self, row: Row, limit: int) -> tuple[list[Any], list[Any]]:
        content = self.content(row)
        pairs = content.get()
        alive = [pair for pair in pairs if pair[0] > limit]
        if len(alive) < len(pairs):
            content.keep(alive)
        self._mark(row, content)
        return pairs, alive


class ExpiringMapState(MapState[K, V]):
    """A map whose entries expire."""

    __slots__ = ("_life",)

    def __init__(
        self,
        descriptor: MapStateDescriptor,
        values: Values,
        entry: StateEntry,
        cursor: Cursor,
        materialisation: Materialisation,
        life: Lifetime,
    ) -> None:
        super().__init__(descriptor, values, entry, cursor, materialisation)
        self._life = life

    def get(self, key: K) -> V | None:
        """The value of a map key, None if there is none or it has expired."""
        now = self._life.now()
        pair = self._seen(key, super().get(key), now)
        return None if pair is None else pair[1]

    def put(self, key: K, value: V) -> None:
        """Store a value with a new time to live; raises as that of a plain state does."""
        stamped: Any = self._life.shape((self._life.now(), value))
        super().put(key, stamped)

    def contains(self, key: K) -> bool:
        """Whether a map key has a value that has not expired."""
        now = self._life.now()
        return self._seen(key, super().get(key), now) is not None

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries that have not expired; the map may be changed during the iteration."""
        now = self._life.now()
        for key, pair in super().items():
            seen = self._seen(key, pair, now)
            if seen is not None:
                yield key, seen[1]

    def keys(self) -> Iterator[K]:
        """All map keys whose entries have not expired."""
        return (key for key, _ in self.items())

    def is_empty(self) -> bool:
        """Whether all entries have expired."""
        return next(self.items(), None) is None

    def purge(self, row: Row, limit: int) -> int | None:
        """Remove the entries of a row with a timestamp up to `limit`; returns the earliest remaining timestamp."""
        before, self._cursor.row = self._cursor.row, row
        try:
            pairs: list[tuple[K, Any]] = list(super().items())
            for key, pair in pairs:
                if pair[0] <= limit:
                    self.remove(key)
            return min((pair[0] for _, pair in pairs if pair[0] > limit), default=None)
        finally:
            self._cursor.row = before

    def _seen(self, key: K, pair: Any, now: int) -> Any:
        """The pair if a read may show it; one that has expired is removed."""
        if pair is None:
            return None
        if pair[0] + self._life.length <= now:
            self.remove(key)
            return pair if self._life.shown else None
        if self._life.refreshed:
            pair[0] = now
        return pair


class ExpiringOrderedMapState(ExpiringMapState[K, V], OrderedMapState[K, V]):
    """An ordered map whose entries expire."""

    __slots__ = ()

    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """The entries with first <= key < last that have not expired, ascending or in reverse."""
        now = self._life.now()
        for key, pair in super().range(first, last, reverse=reverse):
            seen = self._seen(key, pair, now)
            if seen is not None:
                yield key, seen[1]
