"""Snapshots of keyed state: a base and the log segments after it.

`History` decides at each barrier what the checkpoint consists of: the handle of the newest decided checkpoint plus
one segment with everything since. It never refers to a file of a checkpoint that was not decided, because such files
may be deleted at any time. Of checkpoints that were declined nothing is kept but one merged epoch of the log. Before segments are too many or too large, a base is cut; it is published in the
background, and the first checkpoint after that replaces by it what lies before the cut.

A base may be followed by segments that begin before its cut: entries are whole values and the last one of an address
wins, so a segment that ends at or after the cut leads from the base to the same state as from what was before.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from tidegate.backends.keyed.base import NewBase
from tidegate.backends.keyed.journal import Told
from tidegate.backends.keyed.log import NOTHING, ChangeLog, Changes
from tidegate.backends.keyed.segment import Segment, chunk_size, encode_changes, encode_segment, read_segment
from tidegate.backends.keyed.table import StateEntry
from tidegate.backends.spi import (
    Address,
    BaseHandle,
    Chunk,
    Cut,
    InlineChunk,
    KeyedHandle,
    SnapshotFiles,
)
from tidegate.errors import TidegateError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.keys import KeyGroupRange

__all__ = ["MAX_SEGMENTS", "History", "PendingSnapshot", "finish_all"]

MAX_SEGMENTS: Final = 32
"""As many segments a restore reads at most."""

EARLY: Final = 0.75
"""At which part of its limits the log gets a new base, so that this is complete before the limits are reached."""

MIN_LOG_BYTES: Final = 16 * 1024 * 1024
"""Segments up to this size need no new base, however small the old one is."""


class PendingSnapshot:
    """The frozen state at one barrier, which is still to be written. Holds bytes only, never live values."""

    def __init__(
        self,
        files: SnapshotFiles,
        previous: KeyedHandle,
        table: tuple[StateEntry, ...],
        changes: Changes,
        base: NewBase | None,
        lost: deque[str],
        refusal: TidegateError | None = None,
    ) -> None:
        self._files = files
        self._previous = previous
        self.table = table
        """The states it holds."""
        self._changes = changes
        self.base = base
        """What it refers to instead of the base before, once that is published."""
        if base is not None:
            base.add_reference()
        self._lost = lost
        self.handle: KeyedHandle | None = None
        self.journal = Told([], 0)
        """The journal, written in addition: how the state was changed."""
        self.refusal = refusal
        """Why this state cannot be part of a checkpoint."""
        self.dropped: tuple[str, ...] = ()
        """Once finished: files that nothing refers to nor will."""
        self.over = False
        """Whether nothing of it is being written, nor will be."""
        self._taken_up = threading.Lock()
        """Acquired, and never released, by the thread that finishes or discards it."""

    def finish(self) -> KeyedHandle:
        """Make the snapshot durable and say where it is.

        Called once, from any thread, while the subtask continues; may block for as long as the upload takes.

        Raises:
            UnavailableError: the storage did not take a file, or a later snapshot was taken before this one was begun
                to be written; the checkpoint is declined, the job continues.
            StateFormatError: a state is larger than its backend may hold; likewise.
        """
        if self.refusal is not None:
            self.discard()
            raise self.refusal
        if not self._taken_up.acquire(blocking=False):
            raise UnavailableError(
                "this snapshot was cancelled before it was written: a later checkpoint has started"
            )
        try:
            self.handle = self._written()
            self.dropped = tuple(self._lost.popleft() for _ in range(len(self._lost)))
        finally:
            self._end()
        return self.handle

    def _written(self) -> KeyedHandle:
        base, segments = self._previous.base, self._previous.segments
        if self.base is not None:
            base, first = self.base.result()
            segments = (first, *self.base.not_covered(segments))
        if self._changes.any:
            segments = self._with_changes(segments, 1 if base is not None else 0)
        entries, dropped = self.journal
        journal = self._files.store(encode_segment(Segment(self.table, entries))) if entries else None
        return KeyedHandle(self._previous.key_groups, base, segments, journal, dropped)

    def _with_changes(self, segments: tuple[Chunk, ...], fixed: int) -> tuple[Chunk, ...]:
        """The segments, what was spilled and one more; if both that and the one before are small, they become one.

        Otherwise as many small ones as there may be segments would stand in the metadata of every checkpoint.
        """
        segments = (*segments, *(self._files.store(part.path) for part in self._changes.spilled))
        # As they were written: reading them in another order costs more than everything else here.
        chunk = self._files.store(encode_changes(self.table, self._changes.held))
        if len(segments) > fixed and isinstance(chunk, InlineChunk) and isinstance(segments[-1], InlineChunk):
            last = dict(read_segment(self._files, segments[-1]).entries)
            together = {**last, **self._changes.held}
            return (*segments[:-1], self._files.store(encode_changes(self.table, together)))
        return (*segments, chunk)

    def discard(self) -> None:
        """Release it without finishing, for a checkpoint that was declined; idempotent, from any thread.

        One that is being finished continues: the finishing thread releases it.
        """
        if not self._taken_up.acquire(blocking=False):
            return
        if self.base is not None and not self.base.begun:
            self.base.abandon()
        self._end()

    def _end(self) -> None:
        """Keep nothing of the state: a declined checkpoint stays referenced for some time."""
        if self.base is not None:
            self.base.drop_reference()
        self._changes, self.journal = NOTHING, Told([], 0)
        self.over = True


def finish_all(pending: Mapping[OperatorUid, PendingSnapshot]) -> dict[OperatorUid, KeyedHandle]:
    """Finish the snapshots of a checkpoint; if one fails, the others are released too. Raises as `finish` does."""
    try:
        return {uid: each.finish() for uid, each in pending.items()}
    finally:
        for each in pending.values():
            each.discard()


class History:
    """The log of a subtask and the checkpoints it took, by which the next one can be small.

    `restored` is what the store holds at the start and may build on; None if it was put together from several
    handles or from another backend, so that only a base describes it. Bases are published by `uploads`; without it,
    with the checkpoint that cuts them. If not `incremental`, every checkpoint is a base.
    """

    def __init__(
        self,
        key_groups: KeyGroupRange,
        restored: KeyedHandle | None,
        files: SnapshotFiles,
        uploads: Executor | None,
        log: ChangeLog,
        *,
        fresh: bool,
        incremental: bool,
    ) -> None:
        self._incremental = incremental
        self._key_groups = key_groups
        self._restored = restored
        self._files = files
        self._uploads = uploads
        self._fresh = fresh
        self._log = log
        self._taken: dict[CheckpointId, PendingSnapshot] = {}
        self._first: CheckpointId | None = None
        """The first that was taken here."""
        self._base_size = _base_size(restored)
        self._base: NewBase | None = None
        """Cut, but not part of a decided checkpoint."""
        self._lost: deque[str] = deque()

    def confirm(self, checkpoint: CheckpointId | None) -> None:
        """Forget what a decided checkpoint that was taken here holds, so that what is appended next finds room."""
        if checkpoint is not None and checkpoint in self._taken:
            self._log.forget(checkpoint)

    @property
    def newest(self) -> PendingSnapshot | None:
        """What was taken last, if it is written and nothing has changed since."""
        newest = next(reversed(self._taken.values()), None)
        return newest if newest is not None and newest.handle is not None and not self._log.open else None

    def append(self, added: Mapping[Address, bytes | None]) -> None:
        """Log entries of the current epoch; raises as `ChangeLog.append` does."""
        self._log.append(added, self.log_limit)

    def take(
        self,
        checkpoint: CheckpointId,
        confirmed: CheckpointId | None,
        table: tuple[StateEntry, ...],
        cut: Callable[[CheckpointId], Cut],
        leftovers: Callable[[], Mapping[Address, bytes | None]],
    ) -> PendingSnapshot:
        """Close the epoch and freeze its checkpoint; it cannot be finished if `cut` says UnavailableError.

        `leftovers` tells how a snapshot that builds on no other differs from what is stored.
        """
        self._forget_declined(confirmed)
        self._log.close_epoch(checkpoint)
        relied_on = self._confirm(confirmed)
        previous = relied_on if self._incremental else None
        since = None if previous is self._restored else confirmed
        changes = self._log.since(since)

        def new_base() -> NewBase:
            held = previous or KeyedHandle(self._key_groups, None, ())
            first = Segment(table, list(leftovers().items()))
            return NewBase(cut(checkpoint), first, self._files, held, lost=self._lost)

        base: NewBase | None = None
        refusal: TidegateError | None = None
        try:
            if previous is None or changes is None:
                self.abandon_base()
                base, changes = new_base(), NOTHING
            else:
                base, changes = self._renewed(new_base, previous, changes, since)
                if base is None and not previous.chunks:
                    changes = changes._replace(held={**changes.held, **leftovers()})
        except UnavailableError as error:
            changes, refusal = NOTHING, error
        alone = previous or KeyedHandle(self._key_groups, None, ())
        pending = PendingSnapshot(self._files, alone, table, changes, base, self._lost, refusal)
        self._taken[checkpoint] = pending
        self._first = self._first or checkpoint
        return pending

    def abandon_base(self) -> None:
        """Abandon the background upload: no further checkpoint uses it."""
        if self._base is not None:
            self._base.abandon()
            self._base = None

    def close(self) -> None:
        """Stop the background upload: its source files are about to be deleted."""
        for base in (self._base, *(taken.base for taken in self._taken.values())):
            if base is not None and base.begun:
                base.stop()

    @property
    def log_limit(self) -> int:
        """How many bytes may be logged since a base: beyond that another base costs a restore less than the log."""
        return max(MIN_LOG_BYTES, self._base_size // 2)

    @property
    def kept_bytes(self) -> int:
        """The bytes of what no decided checkpoint is known to hold."""
        return self._log.kept_bytes

    def _renewed(
        self,
        new_base: Callable[[], NewBase],
        previous: KeyedHandle,
        changes: Changes,
        since: CheckpointId | None,
    ) -> tuple[NewBase | None, Changes]:
        """The base that replaces the one of `previous`, if there is one by now, and what is to be written after it."""
        fill = self._fill(previous, changes, since)
        if self._base is not None and self._base.failed:
            self.abandon_base()
        if self._base is not None:
            return (self._base if self._base.ready or fill >= 1 else None), changes
        if fill >= 1:
            return new_base(), NOTHING
        if self._uploads is not None and fill >= EARLY:
            # A disk that is full now may have room at the next barrier; until the limit nothing depends on it.
            with contextlib.suppress(UnavailableError):
                self._base = new_base()
                self._base.begin(self._uploads)
        return None, changes

    def _forget_declined(self, confirmed: CheckpointId | None) -> None:
        """Only one checkpoint at a time is on the way to its decision, so what came after `confirmed` was declined."""
        self._log.merge_declined(confirmed, self.log_limit)
        for number in [number for number in self._taken if confirmed is None or number > confirmed]:
            self._taken[number].discard()
            if self._taken[number].over:
                del self._taken[number]

    def _confirm(self, confirmed: CheckpointId | None) -> KeyedHandle | None:
        """The handle to build on, or None if there is nothing that may be relied on."""
        handle = self._relied_on(confirmed)
        if self._base is not None and handle is not None and self._base.became(handle.base):
            self._base = None
        elif self._base is not None and (handle is None or handle.base is not self._base.builds_on.base):
            self.abandon_base()
        return handle

    def _relied_on(self, confirmed: CheckpointId | None) -> KeyedHandle | None:
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
        return self._first is not None and checkpoint >= self._first

    def _fill(self, previous: KeyedHandle, changes: Changes, since: CheckpointId | None) -> float:
        """How much of what may follow a base is used; from 1 on there must be a new one."""
        # The first segment after a base came with it: another base would be followed by the same.
        own = previous.segments[1:] if previous.base is not None else previous.segments
        stored = sum(map(chunk_size, own))
        logged = stored + self._log.most_since(since)
        if logged >= EARLY * self.log_limit:
            logged = stored + changes.size
        segments = len(previous.segments) + len(changes.spilled)
        return max(segments / MAX_SEGMENTS, logged / self.log_limit)


def _base_size(handle: KeyedHandle | None) -> int:
    base: BaseHandle | None = handle.base if handle is not None else None
    return sum(chunk_size(chunk) for _, chunk in base.files) if base is not None else 0
