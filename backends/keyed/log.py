"""The change log of one subtask: what was written in each epoch, kept until a checkpoint that holds it is decided.

Files of a declined checkpoint are deleted, so a checkpoint may only build on the newest *decided* one. The log
therefore answers "everything since checkpoint n", however many undecided checkpoints lie in between.

Example:
    >>> log = ChangeLog()
    >>> log.append({b"a": b"1", b"b": b"1"}, limit=1_000)
    >>> log.close_epoch(CheckpointId(1))
    >>> log.append({b"a": None}, limit=1_000)
    >>> log.since(CheckpointId(1))
    {b'a': None}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.backends.spi import Address
from tidegate.ids import CheckpointId

__all__ = ["ChangeLog", "size_of"]


@dataclass(slots=True)
class _Epoch:
    entries: dict[Address, bytes | None] | None = field(default_factory=dict)
    """None: there was too much; only a base can tell what changed."""
    size: int = 0


class ChangeLog:
    """Entries by epoch; the last entry of an address wins."""

    def __init__(self) -> None:
        self._closed: dict[CheckpointId, _Epoch] = {}
        self._open = _Epoch()

    def append(self, added: Mapping[Address, bytes | None], limit: int) -> None:
        """Add entries to the open epoch, or give them up beyond `limit` bytes: a base is due then anyway."""
        epoch = self._open
        if epoch.entries is None:
            return
        epoch.entries.update(added)
        epoch.size += size_of(added)
        if epoch.size > limit:
            epoch.entries = None

    def close_epoch(self, checkpoint: CheckpointId) -> None:
        """What was appended so far belongs to `checkpoint`."""
        self._closed[checkpoint] = self._open
        self._open = _Epoch()

    def since(self, checkpoint: CheckpointId | None) -> dict[Address, bytes | None] | None:
        """Everything after `checkpoint` (None: from the start), or None if some of it was given up."""
        merged: dict[Address, bytes | None] = {}
        for epoch in self._after(checkpoint):
            if epoch.entries is None:
                return None
            merged.update(epoch.entries)
        return merged

    def most_since(self, checkpoint: CheckpointId | None) -> int:
        """How many bytes `since` gives at most; counting what was written twice costs nothing."""
        return sum(epoch.size for epoch in self._after(checkpoint))

    def forget(self, checkpoint: CheckpointId) -> None:
        """Drop what `checkpoint` and earlier ones hold; it is decided."""
        for number in [number for number in self._closed if number <= checkpoint]:
            del self._closed[number]

    def _after(self, checkpoint: CheckpointId | None) -> list[_Epoch]:
        closed = self._closed.items()
        later = [epoch for number, epoch in closed if checkpoint is None or number > checkpoint]
        return [*later, self._open]


def size_of(entries: Mapping[Address, bytes | None]) -> int:
    """The bytes of addresses and values together."""
    return sum(map(len, entries)) + sum(map(len, filter(None, entries.values())))
