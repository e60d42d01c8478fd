"""Write buffer in front of RocksDB: a write to the database costs ten times as much as one to a dictionary.

A checkpoint is a base and the log, so the database need not hold what it was given before a base is cut. What changes
again and again meanwhile is written once, and a state that fits in here hardly ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Final

from tidegate.backends.keyed.log import size_of
from tidegate.backends.rocksdb._client import RocksStore, refuse_large
from tidegate.backends.spi import Address, Entry

__all__ = ["LateWrites"]

_OBJECTS: Final = 170
"""Memory of an entry in addition to the bytes of its address and value."""

_AT_ONCE: Final = 500
"""As many entries are written together; more tuples at once would keep the garbage collector busy."""

_LATELY: Final = 20_000
_ABSENT: Final = b"not here"
"""This very object, which no entry can hold."""
_ITEMS: Final = type(dict[Address, bytes | None]().items())


class LateWrites:
    """Holds about `most_bytes` of entries in memory before `store`; the ones that have been here longest go first."""

    def __init__(self, store: RocksStore, most_bytes: int) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._held: dict[Address, bytes | None] = {}
        self._seen = 1
        self._size = 0
        """What entries have weighed lately, and how many these were: looking at all that is held would cost too much."""

    def write(self, entries: Iterable[Entry]) -> None:
        """Take entries, all or none.

        Raises:
            StateFormatError: a key and its value are too large.
            UnavailableError: the local disk did not take what is too much for memory.
        """
        added: Mapping[Address, bytes | None] = (
            entries.mapping if isinstance(entries, _ITEMS) else dict(entries)
        )
        size = size_of(added)
        refuse_large(added.items(), size)
        self._held.update(added)
        self._seen += len(added)
        self._size += size
        surplus = len(self._held) - self._most_bytes // (_OBJECTS + self._size // self._seen)
        while surplus > 0:
            surplus -= self._write_oldest()
        if self._seen > _LATELY:
            self._seen //= 2
            self._size //= 2

    def get_many(self, addresses: Sequence[Address]) -> list[bytes | None]:
        """The newest bytes of each address, from here or from the database."""
        if not self._held:
            return self._store.get_many(addresses)
        found = list(map(self._held.get, addresses, repeat(_ABSENT)))
        missing = [at for at, data in zip(addresses, found, strict=True) if data is _ABSENT]
        if not missing:
            return found
        stored = iter(self._store.get_many(missing))
        return [next(stored) if data is _ABSENT else data for data in found]

    def flush(self) -> None:
        """Write everything; raises UnavailableError as `RocksStore.write` does."""
        items = iter(self._held.items())
        while some := list(islice(items, _AT_ONCE)):
            self._store.write(some)
        self._held.clear()

    def _write_oldest(self) -> int:
        oldest = list(islice(self._held.items(), _AT_ONCE))
        self._store.write(oldest)
        for at, _ in oldest:
            del self._held[at]
        return len(oldest)
