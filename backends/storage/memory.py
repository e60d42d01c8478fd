"""In-memory checkpoint storage for tests; its content is lost when the process ends.

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
        return _contents(self._name)

    @property
    def decisions(self) -> Decisions:
        """The decisions."""
        return _contents(self._name)


class _Contents(Blobs, Decisions):
    """Files and decisions under one lock; a decision is listed and deleted like a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, bytes] = {}
        self._decided: dict[str, tuple[int, bytes]] = {}

    def put(self, name: str, source: bytes | Path) -> None:
        data = source.read_bytes() if isinstance(source, Path) else source
        with self._lock:
            self._files[name] = data

    def open(self, name: str) -> BinaryIO:
        data = self._files.get(name)
        if data is None:
            raise StateCorruptError(f"file {name} does not exist in memory; restore an older checkpoint")
        return io.BytesIO(data)

    def list(self, prefix: str) -> list[str]:
        with self._lock:
            return sorted(name for name in {*self._files, *self._decided} if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._files.pop(name, None)
                self._decided.pop(name, None)

    def create(self, name: str, data: bytes) -> bool:
        return self.swap(name, None, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        with self._lock:
            version, _ = self._decided.get(name, (0, b""))
            if old_tag != (str(version) if version else None):
                return False
            self._decided[name] = (version + 1, data)
            return True

    def read(self, name: str) -> Decision | None:
        decided = self._decided.get(name)
        return Decision(str(decided[0]), decided[1]) if decided is not None else None


_lock = threading.Lock()
_by_name: dict[str, _Contents] = {}


def _contents(name: str) -> _Contents:
    with _lock:
        return _by_name.setdefault(name, _Contents())
