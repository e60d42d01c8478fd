"""Opening two million keys from a checkpoint: from RocksDB's files beside putting them all again, and from a base of
the filesystem backend.

The stores are those of a subtask, opened as a restart opens them, on a local disk; files are checked on the way.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_letters

from benchmarks.harness import Bar, Case, Report, compare, main
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.descriptors import ValueStateDescriptor
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage import LocalStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

KEYS = 2_000_000
BATCH = 2_000
PER_CPU_SECOND = 500_000
CHANCE = random.Random(7)
VALUES = ["".join(CHANCE.choices(ascii_letters, k=100)) for _ in range(1_024)]
"""So many that hardly a block on disk holds one twice, or files would be small."""
SEEN = ValueStateDescriptor("seen", Types.STRING())


def build(rounds: int) -> Report:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        files = StorageFiles(LocalStorage(Path(folder)).blobs, "bench")
        arguments = {"keys": KEYS}
        cases = [
            Case("rocksdb, by puts", lambda: filled(RocksDBBackend(), files), arguments, KEYS),
            Case("rocksdb, restored", restored(RocksDBBackend(), files), arguments, KEYS),
            Case("filesystem, restored", restored(FilesystemBackend(), files), arguments, KEYS),
        ]
        most_ms = KEYS / PER_CPU_SECOND * 1_000
        bars = [
            Bar("rocksdb, restored", "rocksdb, by puts", 0.3),
            Bar("filesystem, restored", "filesystem, restored", most_ms, "ms"),
        ]
        return compare("restore", cases, bars, rounds=rounds, seconds=0, clock="cpu_s")


def filled(backend: Backend, files: StorageFiles) -> KeyedHandle:
    """Put every key, and take a checkpoint."""
    with opened(backend, files) as store:
        state = store.value_state(SEEN)
        for first in range(0, KEYS, BATCH):
            keys = range(first, first + BATCH)
            store.prefetch(keys)
            for key in keys:
                store.bind(key)
                state.update(VALUES[key % len(VALUES)])
            store.end_batch()
        return store.snapshot(CheckpointId(1), None).finish()


def restored(backend: Backend, files: StorageFiles) -> Callable[[], object]:
    handle = filled(backend, files)

    def run() -> None:
        with opened(backend, files, handle) as store:
            state = store.value_state(SEEN)
            store.bind(KEYS - 1)
            if state.value() != VALUES[(KEYS - 1) % len(VALUES)]:
                raise RuntimeError("the restored state is another one")

    return run


@contextmanager
def opened(backend: Backend, files: StorageFiles, *handles: KeyedHandle) -> Iterator[KeyedStore]:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        place = BackendContext(Path(folder), files, {})
        store = KeyedStore(backend, KeyGroupRange(0, 128), 128, handles, place)
        try:
            yield store
        finally:
            store.close()


if __name__ == "__main__":
    main(build, 3)
