"""A checkpoint storage in this process's memory, for tests; gone when the process ends.

Example:
    >>> MemoryStorage("shared").decisions.create("owner", b"me")
    True
    >>> MemoryStorage("shared").decisions.create("owner", b"you")
    False
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions

from tidegate.clock import new_id
from tidegate.errors import StateCorruptError

__all__ = ["MemoryStorage"]


class MemoryStorage(CheckpointStorage):
    """All storages of one name in a process are one storage; without a name it is a new one."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name if name is not None else new_id()
        self.url = f"memory://{self._name}"

    @property
    def blobs(self) -> Blobs:
        """The files."""
        return _contents(self._name)[0]

    @property
    def decisions(self) -> Decisions:
        """The decisions."""
        return _contents(self._name)[1]


class _MemoryBlobs(Blobs):
    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def put(self, name: str, source: bytes | Path) -> None:
        self._files[name] = source.read_bytes() if isinstance(source, Path) else source

    def open(self, name: str) -> BinaryIO:
        if name not in self._files:
            raise StateCorruptError(f"file {name} does not exist in memory; restore an older checkpoint")
        return io.BytesIO(self._files[name])

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in tuple(self._files) if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._files.pop(name, None)


class _MemoryDecisions(Decisions):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[str, tuple[int, bytes]] = {}

    def create(self, name: str, data: bytes) -> bool:
        return self.swap(name, None, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        with self._lock:
            version, _ = self._current.get(name, (0, b""))
            if old_tag != (str(version) if version else None):
                return False
            self._current[name] = (version + 1, data)
            return True

    def read(self, name: str) -> Decision | None:
        current = self._current.get(name)
        return Decision(str(current[0]), current[1]) if current is not None else None


_lock = threading.Lock()
_by_name: dict[str, tuple[_MemoryBlobs, _MemoryDecisions]] = {}


def _contents(name: str) -> tuple[_MemoryBlobs, _MemoryDecisions]:
    with _lock:
        return _by_name.setdefault(name, (_MemoryBlobs(), _MemoryDecisions()))
