"""Maps on RocksDB: entries of a batch read at once beside one by one, and a range beside that of bare rocksdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from rocksdict import Options, Rdict

from benchmarks.harness import Bar, Case, Report, Round, compare, main, measure
from tidegate.backends.keyed import KeyedStore, MapStateDescriptor, OrderedMapStateDescriptor
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import BackendContext
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

KEYS, ENTRIES, BATCH, CACHED = 200, 1_000, 1_000, 100
LONG, FIRST, LAST = 100_000, 40_000, 60_000
TABLE = MapStateDescriptor("table", Types.LONG(), Types.LONG())
ORDERED = OrderedMapStateDescriptor("ordered", Types.LONG(), Types.LONG())
FILES = StorageFiles(MemoryStorage().blobs, "bench", inline_threshold=0)


def build(rounds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        store, bare = filled(Path(folder)), filled_bare(Path(folder) / "bare")
        gets = {"entries": BATCH, "cached": CACHED}
        spans = {"entries": LAST - FIRST, "of": LONG}
        cases = [
            Case("gets, one by one", Gets(store, at_once=False), gets, BATCH),
            Case("gets, at once", Gets(store, at_once=True), gets, BATCH),
            Case("range, rocksdict", lambda: list(bare_range(bare)), spans, LAST - FIRST),
            Case("range, ordered map", scan(store, reverse=False), spans, LAST - FIRST),
            Case("range in reverse, ordered map", scan(store, reverse=True), spans, LAST - FIRST),
        ]
        bars = [
            Bar("gets, at once", "gets, one by one", 1.3, "of its speed"),
            Bar("range, ordered map", "range, rocksdict", 0.5, "of its speed"),
        ]
        try:
            return compare("maps", cases, bars, rounds=rounds, clock="cpu_s", meter=meter)
        finally:
            store.close()
            bare.close()


def meter(run: Callable[[], object], calls: int = 1) -> Round:
    """Leaves out what is cached before a batch."""
    if isinstance(run, Gets):
        run.prepare(calls)
    return measure(run, calls)


def filled(folder: Path) -> KeyedStore:
    """Many maps and a long ordered one, all of it in the database."""
    place = folder / "store"
    place.mkdir()
    store = KeyedStore(
        RocksDBBackend(), KeyGroupRange(0, 8), 8, (), BackendContext(place, FILES, {}), cache_entries=KEYS
    )
    for key in range(KEYS):
        store.bind(key)
        store.state(TABLE).put_all({number: number for number in range(ENTRIES)})
    store.bind("long")
    store.state(ORDERED).put_all({number: number for number in range(LONG)})
    store.end_batch()
    store.snapshot(CheckpointId(1), None).finish()
    return store


class Gets:
    """A batch that reads an entry for each record; a tenth of these are cached before."""

    def __init__(self, store: KeyedStore, *, at_once: bool) -> None:
        self._store = store
        self._at_once = at_once
        self._random = Random(5)  # keys of a benchmark
        self._pairs: list[tuple[int, int]] = []

    def prepare(self, calls: int) -> None:
        """Begin a batch with nothing cached but the rows and a tenth of the entries."""
        store, table = self._store, self._store.state(TABLE)
        store._rows.clear()
        pick = self._random.randrange
        self._pairs = [(pick(KEYS), pick(ENTRIES)) for _ in range(calls * BATCH)]
        store.prefetch([key for key, _ in self._pairs])
        for key, number in self._pairs[:: BATCH // CACHED]:
            store.bind(key)
            table.get(number)

    def __call__(self) -> None:
        store, table = self._store, self._store.state(TABLE)
        batch, self._pairs = self._pairs[:BATCH], self._pairs[BATCH:]
        if self._at_once:
            store.prefetch([key for key, _ in batch], {table: [number for _, number in batch]})
        for key, number in batch:
            store.bind(key)
            assert table.get(number) == number


def scan(store: KeyedStore, *, reverse: bool) -> Callable[[], object]:
    def run() -> None:
        store.bind("long")
        found: list[Any] = list(store.state(ORDERED).range(FIRST, LAST, reverse=reverse))
        assert len(found) == LAST - FIRST

    return run


def filled_bare(folder: Path) -> Rdict:
    """The same entries by hand, under keys whose bytes are in order."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(str(folder), options=options)
    for number in range(LONG):
        database[b"long" + number.to_bytes(8, "big")] = msgspec.msgpack.encode(number)
    database.flush()
    return database


def bare_range(database: Rdict) -> Iterator[tuple[int, int]]:
    decode = msgspec.msgpack.Decoder(int).decode
    end = b"long" + LAST.to_bytes(8, "big")
    found = database.items(from_key=b"long" + FIRST.to_bytes(8, "big"))
    for key, value in takewhile(lambda item: item[0] < end, found):
        yield int.from_bytes(key[4:], "big"), decode(value)


if __name__ == "__main__":
    main(build)
