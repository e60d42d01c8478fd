"""Decisions on a storage without atomic operations: for one writer only.

Version 0 of a record is a plain file, version n is `name@n`, and the highest number is current, so a crash leaves the
record as it was before or after. Nothing keeps a second process from writing the same number at the same moment: who
uses this says so to the person who starts a job, and refuses what several machines may do at once.

Example:
    >>> from tidegate.backends.storage import MemoryStorage
    >>> record = SoleDecisions(MemoryStorage().blobs)
    >>> record.swap("latest", None, b"one"), record.swap("latest", None, b"two"), record.swap("latest", "0", b"two")
    (True, False, True)
    >>> record.read("latest")
    Decision(tag='1', data=b'two')
"""

from __future__ import annotations

import threading
from typing import Final

from tidegate.backends.spi import Blobs, CheckpointStorage, Decision, Decisions

__all__ = ["SoleDecisions", "decisions_of"]

_VERSION: Final = "@"
_KEPT_VERSIONS: Final = 8
"""For readers elsewhere that listed the files just before."""

_lock = threading.Lock()
"""Within this process changes are atomic, whichever object makes them."""


def decisions_of(storage: CheckpointStorage) -> Decisions:
    """The storage's own decisions, or those of its one writer."""
    return storage.decisions or SoleDecisions(storage.blobs)


class SoleDecisions(Decisions):
    """Numbered files; atomic within this process."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def create(self, name: str, data: bytes) -> bool:
        """Write version 0 unless there is any."""
        return self.swap(name, None, data)

    def swap(self, name: str, old_tag: str | None, data: bytes) -> bool:
        """Write the next version if the newest is `old_tag`."""
        with _lock:
            versions = self._versions(name)
            newest = max(versions, default=-1)
            if newest != (int(old_tag) if old_tag is not None else -1):
                return False
            self._blobs.put(_versioned(name, newest + 1), data)
            self._blobs.delete(
                versions[version] for version in versions if version <= newest - _KEPT_VERSIONS
            )
            return True

    def read(self, name: str) -> Decision | None:
        """The newest version."""
        with _lock:
            versions = self._versions(name)
            if not versions:
                return None
            newest = max(versions)
            with self._blobs.open(versions[newest]) as file:
                return Decision(str(newest), file.read())

    def _versions(self, name: str) -> dict[int, str]:
        found: dict[int, str] = {}
        for file in self._blobs.list(name):
            rest = file.removeprefix(name)
            if not rest:
                found[0] = file
            elif rest.startswith(_VERSION) and rest[1:].isdigit():
                found[int(rest[1:])] = file
        return found


def _versioned(name: str, version: int) -> str:
    return f"{name}{_VERSION}{version:012d}" if version else name
