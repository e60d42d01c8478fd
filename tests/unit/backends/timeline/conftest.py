"""State of every backend that goes through epochs, with a handle for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import msgspec
import pytest

from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import KeyedStore, ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange
from tidegate.types import Types

__all__ = ["ALL", "COUNT", "HALVES", "MANY", "NAMED", "Epochs", "Place"]

ALL = KeyGroupRange(0, 8)
COUNT = ValueStateDescriptor("count", Types.LONG())
MANY = ListStateDescriptor("many", Types.STRING())
NAMED = MapStateDescriptor("named", Types.STRING(), Types.LONG())

HALVES = (KeyGroupRange(0, 4), KeyGroupRange(4, 8))

Change = Callable[[KeyedStore], object]
Epochs = list[Change]


class Place:
    """A storage in memory, and directories for what is read from it."""

    def __init__(self, backend: Backend, root: Path) -> None:
        self.backend = backend
        self.root = root
        self.storage = MemoryStorage()
        self.files = StorageFiles(self.storage.blobs, "run", inline_threshold=0)

    def context(self) -> BackendContext:
        return BackendContext(Path(mkdtemp(dir=self.root)), self.files, {})

    def taken(self, epochs: Epochs) -> list[KeyedHandle]:
        """The handle of each epoch, one store going through all."""
        store = self._open()
        try:
            return [self._epoch(store, change, number) for number, change in enumerate(epochs, start=1)]
        finally:
            store.close()

    def taken_apart(self, epochs: Epochs) -> list[KeyedHandle]:
        """The handle of each epoch, each a base of its own."""
        handles: list[KeyedHandle] = []
        for change in epochs:
            grown = self._reopened(_halves(handles[-1]) if handles else [], change)
            # What is put together from two handles can build on none.
            handles.append(self._reopened(_halves(grown)))
        return handles

    def _open(self, *handles: KeyedHandle) -> KeyedStore:
        return KeyedStore(self.backend, ALL, ALL.last, handles, self.context(), cache_entries=3)

    def _reopened(self, handles: list[KeyedHandle], change: Change = lambda store: None) -> KeyedHandle:
        store = self._open(*handles)
        try:
            return self._epoch(store, change, 1)
        finally:
            store.close()

    def _epoch(self, store: KeyedStore, change: Change, number: int) -> KeyedHandle:
        change(store)
        confirmed = CheckpointId(number - 1) if number > 1 else None
        return store.snapshot(CheckpointId(number), confirmed).finish()


def _halves(handle: KeyedHandle) -> list[KeyedHandle]:
    return [msgspec.structs.replace(handle, key_groups=half) for half in HALVES]


@pytest.fixture(
    scope="module",
    params=[HeapBackend(), FilesystemBackend(), RocksDBBackend()],
    ids=lambda backend: backend.name,
)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with TemporaryDirectory() as root:
        yield Place(request.param, Path(root))
