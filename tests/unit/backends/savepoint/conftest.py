"""State of one backend and its canonical files, on a storage in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from tidegate.backends.keyed import KeyedStore
from tidegate.backends.keyed.address import range_bounds
from tidegate.backends.keyed.restore import restore
from tidegate.backends.savepoint import write_keyed
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

__all__ = ["ALL", "MAX_PARALLELISM", "Place"]

MAX_PARALLELISM = 8
ALL = KeyGroupRange(0, MAX_PARALLELISM)


class Place:
    """State on a storage in memory, opened by one backend in directories of its own."""

    def __init__(self, backend: Backend, root: Path) -> None:
        self.backend = backend
        self.root = root
        self.storage = MemoryStorage()
        self.native = StorageFiles(self.storage.blobs, "run", inline_threshold=0)
        self.canonical = StorageFiles(self.storage.blobs, "savepoint")

    def context(self) -> BackendContext:
        return BackendContext(Path(mkdtemp(dir=self.root)), self.native, {})

    def taken(self, change: Callable[[KeyedStore], None]) -> KeyedHandle:
        """A native snapshot of what `change` leaves behind."""
        store = KeyedStore(self.backend, ALL, MAX_PARALLELISM, [], self.context(), cache_entries=2)
        try:
            change(store)
            return store.snapshot(CheckpointId(1), None).finish()
        finally:
            store.close()

    def write(self, *handles: KeyedHandle, parts: int = 1) -> tuple[KeyedHandle, ...]:
        return write_keyed(
            "totals", handles, MAX_PARALLELISM, self.backend, self.context(), self.canonical, parts=parts
        )

    def entries(self, *handles: KeyedHandle, groups: KeyGroupRange = ALL) -> list[tuple[bytes, bytes]]:
        restored = restore(self.backend, groups, handles, self.context())
        try:
            return list(restored.materialisation.scan(*range_bounds(groups)))
        finally:
            restored.materialisation.close()
