"""A keyed store over the memory of this process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.keyed.expiring import READS
from tidegate.backends.filesystem import FilesystemBackend
from tidegate.backends.heap import HeapBackend
from tidegate.backends.keyed import (
    KeyedStore,
)
from tidegate.backends.rocksdb import RocksDBBackend
from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.backends.storage import MemoryStorage, StorageFiles
from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.keys import KeyGroupRange

Open = Callable[..., KeyedStore]
BACKENDS = {"heap": HeapBackend, "filesystem": FilesystemBackend, "rocksdb": RocksDBBackend}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def open_store(tmp_path: Path, storage: MemoryStorage) -> Iterator[Open]:
    """Opens stores and closes them at the end."""
    opened: list[KeyedStore] = []

    def open_one(
        *handles: KeyedHandle,
        backend: Backend | None = None,
        key_groups: KeyGroupRange = KeyGroupRange(0, 8),  # noqa: B008  # frozen
        cache_entries: int = 100,
        now_ns: Callable[[], int] = SYSTEM_CLOCK.now_ns,
        uploads: Executor | None = None,
        journaled: bool = False,
        memory_bytes: int | None = None,
    ) -> KeyedStore:
        directory = tmp_path / str(len(opened))
        directory.mkdir()
        files = StorageFiles(storage.blobs, "run", inline_threshold=0)
        context = BackendContext(directory, files, {}, memory_bytes)
        chosen: Sequence[KeyedHandle] = handles
        opened.append(
            KeyedStore(
                backend or FilesystemBackend(),
                key_groups,
                8,
                chosen,
                context,
                cache_entries=cache_entries,
                now_ns=now_ns,
                uploads=uploads,
                journaled=journaled,
            )
        )
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def reopen(open_store: Open, clock: ManualClock, request: pytest.FixtureRequest) -> Open:
    """Opens stores over each backend that live by `clock`."""
    return functools.partial(open_store, backend=request.param(), now_ns=clock.now_ns)


@pytest.fixture(params=list(READS.values()), ids=list(READS))
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param
