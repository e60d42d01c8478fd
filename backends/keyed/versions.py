"""Local copies of the state of one operator in one subtask, from which the next execution on this machine continues.

A version is what a closed materialisation has left, under a name that follows from the handle it equals. Names of
files on the checkpoint storage are given once and small pieces are inline in the handle, so equal handles have equal
state: a version of another moment, or of an execution that does not count, is never taken for the one that is wanted.
Only the storage counts. A version that is missing costs the time to read it from there, and one that cannot be
written is not there. Versions never change: an execution that continues from one uses its own hard links.

Example:
    >>> import tempfile
    >>> from tidegate.backends.spi import InlineChunk
    >>> from tidegate.keys import KeyGroupRange
    >>> handle = KeyedHandle(KeyGroupRange(0, 8), None, (InlineChunk(b"a segment"),))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     versions, left = Versions(Path(place, "versions")), Path(place, "left")
    ...     left.mkdir()
    ...     versions.keep(handle, (), left)
    ...     found = versions.find(handle)
    ...     found is not None and found.left.is_dir(), list(left.iterdir())
    (True, [])
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import xxhash

from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import KeyedHandle
from tidegate.clock import new_id

__all__ = ["Version", "Versions"]

_KEPT: Final = 3
"""Versions of a subtask: executions that do not count leave some too, and the wanted one shall outlast those."""

_LEFT: Final = "left"
_TABLE: Final = "table"


class Version(NamedTuple):
    """What a materialisation has left, and the states in it."""

    left: Path
    table: tuple[StateEntry, ...]


class Versions:
    """The versions in one directory of a local disk; several processes may use it at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, handle: KeyedHandle) -> Version | None:
        """What equals `handle`, if it is here."""
        found = self._directory / _name(handle)
        try:
            return Version(found / _LEFT, _TABLES.decode((found / _TABLE).read_bytes()))
        except (OSError, msgspec.DecodeError):
            return None

    def keep(self, handle: KeyedHandle, table: tuple[StateEntry, ...], left: Path) -> None:
        """Take over the directory `left`, which equals `handle`, if it is on this disk and that is not here yet.

        What is not kept any more goes to its place, for the owner of that to remove.
        """
        new = self._directory / f".{new_id(16)}"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.mkdir(mode=0o700)
            (new / _TABLE).write_bytes(msgspec.msgpack.encode(table))
            left.rename(new / _LEFT)
            new.rename(self._directory / _name(handle))
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
        else:
            self._forget(left)

    def _forget(self, rubbish: Path) -> None:
        """Move away all but the newest; an execution that is linking one of the others reads it from the storage."""
        rubbish.mkdir(exist_ok=True)
        found: list[tuple[int, Path]] = []
        for path in self._directory.glob("[!.]*"):
            with contextlib.suppress(OSError):  # another process removes it
                found.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(found)[:-_KEPT]:
            with contextlib.suppress(OSError):  # likewise
                path.rename(rubbish / path.name)


def _name(handle: KeyedHandle) -> str:
    """The same for equal state; the journal is not part of it."""
    bare = msgspec.structs.replace(handle, journal=None, dropped_changes=0)
    return xxhash.xxh3_128_hexdigest(msgspec.msgpack.encode(bare))


_TABLES: Final = msgspec.msgpack.Decoder(tuple[StateEntry, ...])
