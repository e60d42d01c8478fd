"""Archive of a pipeline's checkpoints on its storage: reads and writes metadata and marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidegate import faults
from tidegate.backends.spi import Blobs, Decisions
from tidegate.errors import StateCorruptError
from tidegate.ids import CheckpointId, RunId
from tidegate.runtime.checkpoint.manifest import (
    Manifest,
    decode,
    encode,
    files_of,
    metadata_name,
    settled_name,
)
from tidegate.runtime.checkpoint.retention import FileRegistry

__all__ = ["Archive", "Retained"]


class Retained(msgspec.Struct, frozen=True):
    """A checkpoint that is still there, and the run that wrote it."""

    run: RunId
    checkpoint: CheckpointId


class Archive:
    """Metadata and settlement marks. Methods may be called from any thread and may block on the storage."""

    def __init__(self, blobs: Blobs, decisions: Decisions) -> None:
        self._blobs = blobs
        self._decisions = decisions

    def load(self, retained: Retained) -> Manifest:
        """Read the metadata of a checkpoint.

        Raises:
            StateCorruptError: it is damaged or missing.
            StateFormatError: it is of a newer version.
        """
        name = metadata_name(retained.run, retained.checkpoint)
        with self._blobs.open(name) as file:
            return decode(file.read(), name)

    def write(self, manifest: Manifest) -> frozenset[str]:
        """Make metadata durable; returns its file and those it refers to."""
        faults.point("checkpoint.before-metadata")
        name = metadata_name(manifest.run, manifest.checkpoint)
        self._blobs.put(name, encode(manifest))
        faults.point("checkpoint.after-metadata")
        return files_of(manifest) | {name}

    def settled(self, retained: Retained) -> bool:
        """Whether all output of a checkpoint is known to be visible."""
        return self._decisions.read(settled_name(retained.run, retained.checkpoint)) is not None

    def newest_settled(self, retained: Sequence[Retained]) -> Retained | None:
        """The newest of these checkpoints that needs no commit any more."""
        return next((known for known in reversed(retained) if self.settled(known)), None)

    def mark_settled(self, retained: Retained) -> None:
        """Write the mark that all output of a checkpoint is visible. Idempotent."""
        faults.point("checkpoint.before-settled")
        self._decisions.create(settled_name(retained.run, retained.checkpoint), b"")
        faults.point("checkpoint.after-settled")

    def sweep(self, run: RunId, retained: Sequence[Retained], check_owner: Callable[[], None]) -> int:
        """Delete what tasks of a run left behind and no retained checkpoint refers to; returns how many files.

        Called when none of these tasks works any more. Names carry the run, so a newer owner's files are not among them.

        Raises:
            FencedError: `check_owner` found a newer owner; nothing was deleted.
        """
        kept = {
            name(known.run, known.checkpoint) for known in retained for name in (metadata_name, settled_name)
        }
        try:
            kept = kept.union(*(files_of(self.load(known)) for known in retained))
        except StateCorruptError:
            return 0  # the files that a damaged checkpoint refers to are unknown
        names = [
            name for part in ("shared/", "chk-", "claims/") for name in self._blobs.list(f"{run}/{part}")
        ]
        left = [name for name in names if name not in kept]
        check_owner()
        faults.point("restore.before-sweep")
        self._blobs.delete(left)
        self._blobs.forget_unfinished(f"{run}/")
        return len(left)

    def registry(self, retained: Sequence[Retained], keep: int) -> FileRegistry:
        """The files of these checkpoints, the initial reference counts of the coordinator."""
        registry = FileRegistry(keep)
        for known in retained:
            try:
                files = files_of(self.load(known))
            except StateCorruptError:
                files = frozenset()  # a damaged old checkpoint must not prevent a start from a newer one
            registry.decided(known.checkpoint, files)
        return registry
