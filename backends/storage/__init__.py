"""Checkpoint storages: blobs and atomic decisions, on a local disk, in memory or in an object store."""

from __future__ import annotations

from tidegate.backends.storage.files import StorageFiles as StorageFiles
from tidegate.backends.storage.local import LocalStorage as LocalStorage
from tidegate.backends.storage.memory import MemoryStorage as MemoryStorage
from tidegate.backends.storage.sole import decisions_of as decisions_of
from tidegate.backends.storage.url import (
    below as below,
    complete as complete,
    open_storage as open_storage,
)

__all__ = [
    "LocalStorage",
    "MemoryStorage",
    "StorageFiles",
    "below",
    "complete",
    "decisions_of",
    "open_storage",
]
