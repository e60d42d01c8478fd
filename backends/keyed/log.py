"""Change log of one subtask: the writes of each epoch, kept until a checkpoint that contains them is decided.

Files of a declined checkpoint are deleted, so a checkpoint may only build on the newest *decided* one. The log
therefore answers "everything since checkpoint n", however many declined checkpoints lie in between: their epochs are
merged into one. Beyond a limit the entries are dropped and only a base can tell what changed, so an outage of the
storage takes a bounded amount of memory and disk. What is more than may be held in memory goes to segment files on the
local disk, the oldest first, so entries in memory are newer.

Example:
    >>> log = ChangeLog(Path("/nonexistent"))
    >>> log.append({b"a": b"1", b"b": b"1"}, limit=1_000)
    >>> log.close_epoch(CheckpointId(1))
    >>> log.append({b"a": None}, limit=1_000)
    >>> log.since(CheckpointId(1)).held
    {b'a': None}
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from tidegate.backends.keyed.segment import write_segment
from tidegate.backends.spi import Address
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId

__all__ = ["NOTHING", "ChangeLog", "Changes", "Spilled", "size_of"]

_OBJECTS: Final = 170
"""Memory of an entry in addition to the bytes of its address and value."""


class Spilled:
    """A part of the log in a segment file without a table; the file exists as long as this object is referenced."""

    def __init__(self, path: Path, entries: Mapping[Address, bytes | None]) -> None:
        self.path = path
        self.size = size_of(entries)
        weakref.finalize(self, path.unlink, missing_ok=True)
        try:
            write_segment(path, entries)
        except OSError as error:
            raise UnavailableError(
                f"cannot write {path} to the local disk: {error.strerror}; free space there"
            ) from error


class Changes(NamedTuple):
    """The writes since a checkpoint: files in order, and newer entries in memory."""

    spilled: tuple[Spilled, ...]
    held: Mapping[Address, bytes | None]

    @property
    def any(self) -> bool:
        """Whether something was written."""
        return bool(self.spilled or self.held)

    @property
    def size(self) -> int:
        """The bytes of addresses and values; entries in two files count twice."""
        return sum(part.size for part in self.spilled) + size_of(self.held)


NOTHING: Final = Changes((), {})


@dataclass(slots=True)
class _Epoch:
    held: dict[Address, bytes | None] = field(default_factory=dict)
    spilled: list[Spilled] = field(default_factory=list)
    size: int = 0
    weight: int = 0
    """What `held` takes in memory, at most."""
    dropped: bool = False
    """There was too much; only a base can tell what changed."""


class ChangeLog:
    """Entries by epoch; the last entry of an address wins.

    It holds about `memory_bytes` of them in memory, everything without such a limit, and the rest in `directory`.
    """

    def __init__(self, directory: Path, memory_bytes: int | None = None) -> None:
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._numbers = count()
        self._closed: dict[CheckpointId, _Epoch] = {}
        self._open = _Epoch()

    @property
    def open(self) -> bool:
        """Whether anything was appended to the open epoch."""
        return self._open.size > 0

    def append(self, added: Mapping[Address, bytes | None], limit: int) -> None:
        """Add entries to the open epoch, or give them up beyond `limit` bytes: a base is due then anyway.

        Raises:
            UnavailableError: the local disk did not take what is too much for memory.
        """
        epoch = self._open
        if epoch.dropped:
            return
        size = size_of(added)
        epoch.held.update(added)
        epoch.size += size
        epoch.weight += size + _OBJECTS * len(added)
        if epoch.size > limit:
            self._open = _Epoch(size=epoch.size, dropped=True)
        elif self._memory_bytes is not None:
            self._spill(self._memory_bytes)

    def close_epoch(self, checkpoint: CheckpointId) -> None:
        """What was appended so far belongs to `checkpoint`."""
        self._closed[checkpoint] = self._open
        self._open = _Epoch()

    def merge_declined(self, confirmed: CheckpointId | None, limit: int) -> None:
        """Make one epoch of those closed after `confirmed`, which will never be decided; drop it beyond `limit` bytes."""
        declined = [number for number in self._closed if confirmed is None or number > confirmed]
        if len(declined) < 2:
            return
        epochs = [self._closed.pop(number) for number in declined]
        merged = _Epoch(dropped=any(epoch.dropped for epoch in epochs))
        for epoch in epochs:
            merged.held.update(epoch.held)
            merged.spilled.extend(epoch.spilled)
        held = size_of(merged.held)
        merged.weight = held + _OBJECTS * len(merged.held)
        merged.size = held + sum(part.size for part in merged.spilled)
        if merged.dropped or merged.size > limit:
            merged = _Epoch(size=merged.size, dropped=True)
        self._closed[declined[-1]] = merged

    @property
    def kept_bytes(self) -> int:
        """The bytes of addresses and values in memory and on the local disk."""
        epochs = self._after(None)
        return sum(size_of(epoch.held) + sum(part.size for part in epoch.spilled) for epoch in epochs)

    def since(self, checkpoint: CheckpointId | None) -> Changes | None:
        """Everything after `checkpoint` (None: from the start), or None if a part of it was dropped."""
        spilled: list[Spilled] = []
        merged: dict[Address, bytes | None] = {}
        for epoch in self._after(checkpoint):
            if epoch.dropped:
                return None
            spilled.extend(epoch.spilled)
            merged.update(epoch.held)
        return Changes(tuple(spilled), merged)

    def most_since(self, checkpoint: CheckpointId | None) -> int:
        """Upper bound of the bytes of `since`; repeated writes count each time, which makes it cheap."""
        return sum(epoch.size for epoch in self._after(checkpoint))

    def forget(self, checkpoint: CheckpointId) -> None:
        """Drop what `checkpoint` and earlier ones hold; it is decided."""
        for number in [number for number in self._closed if number <= checkpoint]:
            del self._closed[number]

    def _after(self, checkpoint: CheckpointId | None) -> list[_Epoch]:
        closed = self._closed.items()
        later = [epoch for number, epoch in closed if checkpoint is None or number > checkpoint]
        return [*later, self._open]

    def _spill(self, most: int) -> None:
        epochs = self._after(None)
        weight = sum(epoch.weight for epoch in epochs)
        for epoch in epochs if weight > most else ():
            if weight > most and epoch.held:
                path = self._directory / f"log-{next(self._numbers)}"
                epoch.spilled.append(Spilled(path, epoch.held))
                weight -= epoch.weight
                epoch.held, epoch.weight = {}, 0


def size_of(entries: Mapping[Address, bytes | None]) -> int:
    """The bytes of addresses and values together."""
    return sum(map(len, entries)) + sum(map(len, filter(None, entries.values())))
