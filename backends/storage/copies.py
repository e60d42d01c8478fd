"""A copy of snapshot files on the machine that uses them, so that a restart there need not read the storage.

The storage alone counts: a file is durable there before it is copied, a copy that is missing or differs from its
checksum is passed over, and one that cannot be written is not there.

Example:
    >>> import tempfile
    >>> from tidegate.backends.storage import MemoryStorage, StorageFiles
    >>> storage = MemoryStorage()
    >>> with tempfile.TemporaryDirectory() as place:
    ...     files = CopiedFiles(StorageFiles(storage.blobs, "run-1", inline_threshold=0), Path(place))
    ...     chunk = files.store(b"state")
    ...     storage.blobs.delete(storage.blobs.list(""))
    ...     files.fetch(chunk)
    b'state'
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from tidegate.backends.spi import Chunk, SnapshotFiles, StoredChunk
from tidegate.backends.storage.files import is_intact

__all__ = ["CopiedFiles", "copy_name"]


class CopiedFiles:
    """Snapshot files that are read from `directory` where it has an intact copy. Safe to call from any thread."""

    def __init__(self, files: SnapshotFiles, directory: Path) -> None:
        self._files = files
        self._directory = directory

    def store(self, data: bytes | Path) -> Chunk:
        """Make bytes or a local file durable under a new name; raises as the storage does."""
        chunk = self._files.store(data)
        if isinstance(chunk, StoredChunk):
            self._copy(chunk, data)
        return chunk

    def fetch(self, chunk: Chunk) -> bytes:
        """The bytes of `chunk`; raises as the storage does."""
        if not isinstance(chunk, StoredChunk):
            return self._files.fetch(chunk)
        with contextlib.suppress(OSError):
            data = (self._directory / copy_name(chunk.name)).read_bytes()
            if is_intact(data, chunk):
                return data
        data = self._files.fetch(chunk)
        self._copy(chunk, data)
        return data

    def _copy(self, chunk: StoredChunk, data: bytes | Path) -> None:
        copy = self._directory / copy_name(chunk.name)
        try:
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if isinstance(data, Path):
                shutil.copyfile(data, copy)
            else:
                copy.write_bytes(data)
        except OSError:
            # A disk that is full may keep no copy; part of one would only take room.
            with contextlib.suppress(OSError):
                copy.unlink(missing_ok=True)


def copy_name(name: str) -> str:
    """What the copy of a file of the storage is called."""
    return name.replace("/", "_")
