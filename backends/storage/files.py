"""Snapshot files on a checkpoint storage: unique names, checksums, small files inline.

Example:
    >>> from tidegate.backends.storage import MemoryStorage
    >>> files = StorageFiles(MemoryStorage().blobs, "run-1/shared")
    >>> files.fetch(files.store(b"a few bytes"))
    b'a few bytes'
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import xxhash

from tidegate.backends.spi import Blobs, Chunk, InlineChunk, StoredChunk
from tidegate.clock import new_id
from tidegate.errors import StateCorruptError

__all__ = ["StorageFiles", "is_intact"]

_BLOCK: Final = 1024 * 1024


class StorageFiles:
    """Writes below `prefix`; reads the file a chunk names, also one of an earlier run.

    Safe to call from any thread.
    """

    def __init__(self, blobs: Blobs, prefix: str, inline_threshold: int = 20 * 1024) -> None:
        self._blobs = blobs
        self._prefix = prefix.rstrip("/")
        self._inline_threshold = inline_threshold

    def store(self, data: bytes | Path) -> Chunk:
        """Make bytes or a local file durable under a new name.

        Raises:
            UnavailableError: the storage did not take them.
        """
        size = data.stat().st_size if isinstance(data, Path) else len(data)
        if size < self._inline_threshold:
            return InlineChunk(data.read_bytes() if isinstance(data, Path) else data)
        return self.store_as(new_id(32), data)

    def store_as(self, name: str, data: bytes | Path) -> StoredChunk:
        """Make bytes or a local file durable under a name that means something; raises as `store` does."""
        size = data.stat().st_size if isinstance(data, Path) else len(data)
        full = f"{self._prefix}/{name}"
        checksum = _checksum(data)
        self._blobs.put(full, data)
        return StoredChunk(full, size, checksum)

    def fetch(self, chunk: Chunk) -> bytes:
        """The bytes of `chunk`.

        Raises:
            StateCorruptError: the file is gone, truncated or differs from its checksum.
            UnavailableError: the storage did not answer.
        """
        if isinstance(chunk, InlineChunk):
            return chunk.data
        with self._blobs.open(chunk.name) as file:
            data = file.read()
        if not is_intact(data, chunk):
            raise StateCorruptError(
                f"state file {chunk.name} is damaged; got {len(data)} bytes with checksum {_checksum(data):016x}; "
                f"expected {chunk.size} bytes with {chunk.checksum:016x}; restore an older checkpoint"
            )
        return data


def is_intact(data: bytes, chunk: StoredChunk) -> bool:
    """Whether these are the bytes that were stored."""
    return len(data) == chunk.size and _checksum(data) == chunk.checksum


def _checksum(data: bytes | Path) -> int:
    if isinstance(data, bytes):
        return xxhash.xxh3_64_intdigest(data)
    digest = xxhash.xxh3_64()
    with data.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.intdigest()
