"""Checkpoints of keyed state: a base, and the log segments after it.

`History` decides at each barrier what the checkpoint consists of: the handle of the newest decided checkpoint plus
one segment with everything since, or a new base once segments are too many or too large. It never refers to a file
of a checkpoint that was not decided, because such files may be deleted at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidegate.backends.keyed.log import ChangeLog, size_of
from tidegate.backends.keyed.segment import Segment, chunk_size, encode_segment
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import Address, BaseHandle, Cut, KeyedHandle, SnapshotFiles
from tidegate.errors import TidegateError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.keys import KeyGroupRange

__all__ = ["MAX_SEGMENTS", "History", "PendingSnapshot"]

MAX_SEGMENTS: Final = 32
"""As many segments a restore reads at most."""

MIN_LOG_BYTES: Final = 4 * 1024 * 1024
"""Segments up to this size need no new base, however small the old one is."""


class PendingSnapshot:
    """The state at one barrier, frozen; what is left is writing it. Holds bytes only, never live values."""

    def __init__(
        self,
        files: SnapshotFiles,
        previous: KeyedHandle,
        table: tuple[StateEntry, ...],
        changes: Mapping[Address, bytes | None],
        cut: Cut | None,
        refusal: TidegateError | None = None,
    ) -> None:
        self._files = files
        self._previous = previous
        self._table = table
        self._changes = changes
        self._cut = cut
        self.handle: KeyedHandle | None = None
        self.refusal = refusal
        """Why this state cannot be part of a checkpoint."""

    def finish(self) -> KeyedHandle:
        """Make the snapshot durable and say where it is.

        Called once, from any thread, while the subtask goes on; may block for as long as the upload takes.

        Raises:
            UnavailableError: the storage did not take a file; the checkpoint is declined, the job goes on.
            StateFormatError: a state is larger than its backend may hold; likewise.
        """
        if self.refusal is not None:
            self.discard()
            raise self.refusal
        base, segments = self._previous.base, self._previous.segments
        if self._cut is not None:
            try:
                base, segments = self._cut.publish(self._files, base), ()
            finally:
                self._cut.release()
        # The state table is read from a segment, so a new base is followed by one even if it is empty.
        if self._changes or self._cut is not None:
            segment = Segment(self._table, sorted(self._changes.items()))
            segments = (*segments, self._files.store(encode_segment(segment)))
        self.handle = KeyedHandle(self._previous.key_groups, base, segments)
        return self.handle

    def discard(self) -> None:
        """Release it without finishing, for a checkpoint that was aborted first."""
        if self._cut is not None:
            self._cut.release()


class History:
    """The log of a subtask and the checkpoints it took, by which the next one can be small.

    `restored` is what the store holds at the start and may build on; None if it was put together from several
    handles or from another backend, so that only a base describes it.
    """

    def __init__(self, key_groups: KeyGroupRange, restored: KeyedHandle | None, *, fresh: bool) -> None:
        self._key_groups = key_groups
        self._restored = restored
        self._fresh = fresh
        self._log = ChangeLog()
        self._taken: dict[CheckpointId, PendingSnapshot] = {}
        self._base_size = _base_size(restored)

    def append(self, added: Mapping[Address, bytes | None]) -> None:
        """Log entries of the epoch at hand."""
        self._log.append(added, self._log_limit)

    def take(
        self,
        checkpoint: CheckpointId,
        confirmed: CheckpointId | None,
        table: tuple[StateEntry, ...],
        files: SnapshotFiles,
        cut: Callable[[CheckpointId], Cut],
        leftovers: Callable[[], Mapping[Address, bytes | None]],
    ) -> PendingSnapshot:
        """Close the epoch and freeze its checkpoint; it cannot be finished if `cut` says UnavailableError.

        `leftovers` tells how a snapshot that builds on no other differs from what is stored.
        """
        self._log.close_epoch(checkpoint)
        previous = self._confirm(confirmed)
        after = None if previous is self._restored else confirmed
        changes = self._log.since(after)
        if previous is None or changes is None or self._base_is_due(previous, changes, after):
            alone = previous or KeyedHandle(self._key_groups, None, ())
            try:
                pending = PendingSnapshot(files, alone, table, leftovers(), cut(checkpoint))
            except UnavailableError as error:
                pending = PendingSnapshot(files, alone, table, {}, None, error)
        else:
            if not previous.chunks:
                changes.update(leftovers())
            pending = PendingSnapshot(files, previous, table, changes, None)
        self._taken[checkpoint] = pending
        return pending

    @property
    def _log_limit(self) -> int:
        return max(MIN_LOG_BYTES, self._base_size // 2)

    def _confirm(self, confirmed: CheckpointId | None) -> KeyedHandle | None:
        """The handle to build on, or None if there is nothing that may be relied on."""
        taken = self._taken.get(confirmed) if confirmed is not None else None
        if confirmed is None or taken is None:
            usable = self._fresh or (confirmed is not None and not self._is_ours(confirmed))
            return self._restored if usable else None
        for number in [number for number in self._taken if number < confirmed]:
            del self._taken[number]
        self._log.forget(confirmed)
        self._restored = None
        self._base_size = _base_size(taken.handle)
        return taken.handle

    def _is_ours(self, checkpoint: CheckpointId) -> bool:
        return bool(self._taken) and checkpoint >= min(self._taken)

    def _base_is_due(
        self, previous: KeyedHandle, changes: dict[Address, bytes | None], after: CheckpointId | None
    ) -> bool:
        # The first segment after a base came with it: another base would be followed by the same.
        own = previous.segments[1:] if previous.base is not None else previous.segments
        room = self._log_limit - sum(map(chunk_size, own))
        too_large = self._log.most_since(after) > room and size_of(changes) > room
        return len(previous.segments) >= MAX_SEGMENTS or too_large


def _base_size(handle: KeyedHandle | None) -> int:
    base: BaseHandle | None = handle.base if handle is not None else None
    return sum(chunk_size(chunk) for _, chunk in base.files) if base is not None else 0
