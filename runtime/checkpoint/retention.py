"""Retention: reference counting of files over checkpoints. Pure.

Example:
    >>> registry = FileRegistry(retained=1)
    >>> registry.decided(1, {"a", "b"})
    >>> registry.decided(2, {"b"})
    >>> registry.settled(2)
    Release(checkpoints=(1,), files=frozenset({'a'}))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.ids import CheckpointId

__all__ = ["FileRegistry", "Release"]


@dataclass(frozen=True, slots=True)
class Release:
    """Checkpoints that are no longer retained, and the files that no other checkpoint refers to."""

    checkpoints: tuple[CheckpointId, ...] = ()
    files: frozenset[str] = frozenset()

    def joined(self, other: Release) -> Release:
        """Both at once."""
        return Release((*self.checkpoints, *other.checkpoints), self.files | other.files)


class FileRegistry:
    """Keeps the newest `retained` checkpoints, always the newest settled one and everything newer.

    Files of a checkpoint that was never decided may still be named by the next one, so they go only when a newer
    checkpoint is settled without them.
    """

    def __init__(self, retained: int) -> None:
        self._retained = retained
        self._files: dict[CheckpointId, frozenset[str]] = {}
        self._orphans: dict[str, CheckpointId] = {}
        self._pinned: set[CheckpointId] = set()

    @property
    def checkpoints(self) -> tuple[CheckpointId, ...]:
        """What is kept, oldest first."""
        return tuple(self._files)

    def decided(self, checkpoint: CheckpointId, files: Iterable[str]) -> None:
        """A checkpoint holds on to its files from now on."""
        self._files[checkpoint] = frozenset(files)

    def abandoned(self, checkpoint: CheckpointId, files: Iterable[str]) -> None:
        """A checkpoint that wrote these files will not be decided."""
        self._orphans.update(dict.fromkeys(files, checkpoint))

    def pin(self, checkpoint: CheckpointId) -> None:
        """A checkpoint is being read, so it stays for now."""
        self._pinned.add(checkpoint)

    def unpin(self, checkpoint: CheckpointId) -> None:
        """It is not read any more; it is deleted when the next one is settled, if its retention time is over."""
        self._pinned.discard(checkpoint)

    def settled(self, checkpoint: CheckpointId) -> Release:
        """What can go now that all output of `checkpoint` is visible."""
        older = [known for known in self._files if known < checkpoint]
        excess = len(self._files) - self._retained
        dropped = tuple(old for old in older[: max(0, excess)] if old not in self._pinned)
        orphans = {name for name, abandoned in self._orphans.items() if abandoned < checkpoint}
        for name in orphans:
            del self._orphans[name]
        freed = orphans.union(*(self._files.pop(old) for old in dropped))
        return Release(dropped, frozenset(freed).difference(*self._files.values()))
