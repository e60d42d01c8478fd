"""Local cache of snapshot files, so that a restart on this machine need not read the storage.

The storage alone counts: a file is durable there before it is copied, a copy that is missing or differs from its
checksum is passed over, and one that cannot be written is not there. Copies are unpickled and the checksum is no
signature, so only files of this user in a directory that is private to this user are read.

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
import os
import shutil
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

from tidegate.backends.private import create_file, open_directory, open_file
from tidegate.backends.spi import Chunk, SnapshotFiles, StoredChunk
from tidegate.backends.storage.files import is_intact

__all__ = ["CopiedFiles", "copy_name"]

_BLOCK: Final = 1024 * 1024


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
        name = copy_name(chunk.name)
        with contextlib.suppress(OSError), self._opened() as handle, open_file(handle, name) as file:
            copy = file.read()
            if is_intact(copy, chunk):
                return copy
        data = self._files.fetch(chunk)
        self._copy(chunk, data)
        return data

    def _copy(self, chunk: StoredChunk, data: bytes | Path) -> None:
        name = copy_name(chunk.name)
        with contextlib.suppress(OSError), self._opened() as handle:
            copy = create_file(handle, name)
            try:
                with copy, BytesIO(data) if isinstance(data, bytes) else data.open("rb") as source:
                    shutil.copyfileobj(source, copy, _BLOCK)
            except OSError:
                # A disk that is full may keep no copy; part of one would only take room.
                os.unlink(name, dir_fd=handle)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor of the directory.

        Raises:
            OSError: it is gone, or it is not private to this user, which is said once.
        """
        try:
            handle = open_directory(self._directory)
        except PermissionError as error:
            warnings.warn(f"{error}; state is read from the checkpoint storage", RuntimeWarning, stacklevel=1)
            raise
        try:
            yield handle
        finally:
            os.close(handle)


def copy_name(name: str) -> str:
    """What the copy of a file of the storage is called."""
    return name.replace("/", "_")
