"""List state: elements in chunks, so that an append does not rewrite the list.

The row keeps how many chunks there are and the elements after the last one; full chunks are stored outside the row and
change only if an element in them was changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from tidegate.backends.keyed.asynchronous import AsyncList
from tidegate.backends.keyed.collection import Collection, Raw, Shelf, Values
from tidegate.backends.keyed.row import Cursor, Row
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Entry, Materialisation
from tidegate.errors import StateCorruptError
from tidegate.isolation import is_immutable
from tidegate.keys import key_bytes

__all__ = [
    "CHUNK_BYTES",
    "CHUNK_ITEMS",
    "ListState",
    "chunked",
    "convert_chunk",
    "convert_head",
    "pack_head",
    "unpack_chunk",
    "unpack_head",
]

T = TypeVar("T")

CHUNK_ITEMS: Final = 64
CHUNK_BYTES: Final = 4_096
"""A chunk is full with this many elements, or with this many bytes."""


class ListState(AsyncList[T]):
    """A list for the current key; made by `KeyedStore.state`, used by user functions.

    Elements that `get` gives may be changed in place until the next barrier, and that counts.
    """

    __slots__ = ("_cursor", "_materialisation", "_slot", "_state", "_values")

    def __init__(
        self, values: Values, entry: StateEntry, cursor: Cursor, materialisation: Materialisation
    ) -> None:
        self._values = values
        self._slot = entry.slot
        self._state = entry.state
        self._cursor = cursor
        self._materialisation = materialisation

    def get(self) -> list[T]:
        """All elements in the order they were added; the list itself is the caller's own."""
        row = self._cursor.row
        content = self.content(row)
        elements = content.get()
        self._mark(row, content)
        return elements

    def add(self, value: T) -> None:
        """Append an element. A mutable one is copied: later changes to the argument do not count.

        Raises:
            RecordError: the state's codec would not give the same value back.
        """
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements; raises as `add` does."""
        row = self._cursor.row
        content = self.content(row)
        for value in values:
            content.add(value, row.key)
        self._mark(row, content)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; raises as `add` does."""
        kept = list(values)
        self.clear()
        self.add_all(kept)

    def clear(self) -> None:
        """Forget all elements of the key."""
        row = self._cursor.row
        content = self.content(row)
        content.clear()
        self._mark(row, content)

    def content(self, row: Row) -> ListContent:
        """What is known of a row's list."""
        held = row.values[self._slot]
        if type(held) is not ListContent:
            shelf = Shelf(self._materialisation, self._state, row.address)
            held = row.values[self._slot] = ListContent(self._values, shelf, held.data if held else None)
        return held

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def _mark(self, row: Row, content: ListContent) -> None:
        if content.touched and not row.changed:
            self._cursor.mark(row)


class ListContent(Collection):
    """Elements of one list since the last barrier."""

    __slots__ = ("_chunks", "_dropped", "_opened", "_shelf", "_tail", "_values")

    def __init__(self, values: Values, shelf: Shelf, stored: bytes | None) -> None:
        super().__init__()
        self._values = values
        self._shelf = shelf
        self._chunks, tail = unpack_head(stored) if stored is not None else (0, [])
        self._tail: list[Any] = [Raw(part) for part in tail]
        self._opened: dict[int, tuple[bytes | None, list[Any]]] = {}
        """Elements of chunks, with their bytes if they could change."""
        self._dropped = 0
        """Chunks below this number that are beyond the list are to be removed."""

    def get(self) -> list[Any]:
        """All elements, live."""
        if len(self._opened) < self._chunks:
            self._open([number for number in range(self._chunks) if number not in self._opened])
        for place, held in enumerate(self._tail):
            if type(held) is Raw:
                self._tail[place] = self._values.decode(held.data)
        if not self.touched:
            changeable = any(before is not None for before, _ in self._opened.values())
            self.touched = changeable or not all(map(is_immutable, self._tail))
        chunks = [element for number in range(self._chunks) for element in self._opened[number][1]]
        return chunks + self._tail

    def add(self, value: Any, of: Any) -> None:
        """Append an element; `of` is the record's key, for messages."""
        self._tail.append(self._values.accept(value, of))
        self.touched = True

    def clear(self) -> None:
        """Forget all."""
        self._dropped = max(self._dropped, self._chunks)
        self._chunks = 0
        self._tail = []
        self._opened.clear()
        self.touched = True

    def keep(self, elements: list[Any]) -> None:
        """Keep only some of the live elements."""
        self.clear()
        self._tail = elements.copy()

    def settle(self, entries: list[Entry]) -> bytes | None:
        """Encode what changed; the row keeps the number of chunks and the rest."""
        for number, (before, elements) in self._opened.items():
            if before is not None and (data := self._pack(elements)) != before:
                entries.append((self._at(number), data))
        self._opened.clear()
        rest = self._cut_chunks([self._encode(held) for held in self._tail], entries)
        entries.extend((self._at(number), None) for number in range(self._chunks, self._dropped))
        self._dropped = 0
        self._tail = [Raw(part) for part in rest]
        self.touched = False
        return pack_head(self._chunks, rest) if self._chunks or rest else None

    def _cut_chunks(self, parts: list[bytes], entries: list[Entry]) -> list[bytes]:
        chunks, rest = chunked(parts)
        for chunk in chunks:
            entries.append((self._at(self._chunks), chunk))
            self._chunks += 1
        return rest

    def _open(self, numbers: list[int]) -> None:
        for number, data in zip(numbers, self._shelf.read(map(key_bytes, numbers)), strict=True):
            if data is None:
                raise StateCorruptError(
                    f"chunk {number} of a list of {self._chunks} is missing; restore an older checkpoint"
                )
            elements = [self._values.decode(part) for part in unpack_chunk(data)]
            self._opened[number] = None if all(map(is_immutable, elements)) else data, elements

    def _pack(self, elements: list[Any]) -> bytes:
        return _ENCODER.encode([self._values.encode(element) for element in elements])

    def _encode(self, held: Any) -> bytes:
        return held.data if type(held) is Raw else self._values.encode(held)

    def _at(self, number: int) -> bytes:
        return self._shelf.at(key_bytes(number))


def chunked(parts: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Encoded elements as full chunks, and those after the last one."""
    chunks: list[bytes] = []
    first = size = 0
    for place, part in enumerate(parts, start=1):
        size += len(part)
        if place - first >= CHUNK_ITEMS or size >= CHUNK_BYTES:
            chunks.append(_ENCODER.encode(parts[first:place]))
            first, size = place, 0
    return chunks, parts[first:]


def unpack_chunk(data: bytes) -> list[bytes]:
    """The encoded elements of a chunk."""
    return _PARTS.decode(data)


def pack_head(chunks: int, rest: list[bytes]) -> bytes:
    """What the row keeps: the number of chunks and the encoded elements after them."""
    return _ENCODER.encode((chunks, rest))


def unpack_head(data: bytes) -> tuple[int, list[bytes]]:
    """What `pack_head` was given."""
    return _HEADS.decode(data)


def convert_chunk(data: bytes, convert: Callable[[bytes], bytes]) -> bytes:
    """A chunk with each of its encoded elements converted."""
    return _ENCODER.encode(list(map(convert, _PARTS.decode(data))))


def convert_head(data: bytes, convert: Callable[[bytes], bytes]) -> bytes:
    """What the row keeps, with each encoded element in it converted."""
    chunks, rest = _HEADS.decode(data)
    return pack_head(chunks, list(map(convert, rest)))


_ENCODER: Final = msgspec.msgpack.Encoder()
_HEADS: Final = msgspec.msgpack.Decoder(tuple[int, list[bytes]])
_PARTS: Final = msgspec.msgpack.Decoder(list[bytes])
