"""A pipeline on its checkpoint storage: ownership, status, and where a start resumes.

`<pipeline-id>/latest` is the one record that changes atomically. Owning a pipeline means being the lease in that
record; deciding a checkpoint means swapping it. A run that loses a swap is fenced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from tidegate import faults
from tidegate.backends.spi import CheckpointStorage
from tidegate.backends.storage import decisions_of
from tidegate.clock import Clock
from tidegate.errors import ConfigError, FencedError, InternalError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, PipelineId, RunId
from tidegate.runtime.checkpoint.archive import Archive, Retained
from tidegate.runtime.checkpoint.lease_acquirer import LeaseAcquirer
from tidegate.runtime.checkpoint.manifest import metadata_name, settled_name
from tidegate.runtime.checkpoint.record import VERSION, Record, Status, read_record, record_name
from tidegate.runtime.checkpoint.retention import Release
from tidegate.twophase.fencing import LEASE_MS

__all__ = ["Pipeline"]


class Pipeline:
    """The owner's view of one pipeline. Methods may be called from any thread and may block on the storage."""

    def __init__(
        self,
        storage: CheckpointStorage,
        pipeline: PipelineId,
        run: RunId,
        clock: Clock,
        lease_ms: int = LEASE_MS,
    ) -> None:
        decisions = decisions_of(storage)
        self.id = pipeline
        self.run = run
        self.archive = Archive(storage.blobs, decisions)
        self._blobs = storage.blobs
        self._decisions = decisions
        self._name = record_name(pipeline)
        self.acquirer = LeaseAcquirer(decisions, pipeline, run, clock, lease_ms)
        """The wait of a process that must not own it yet."""
        self.acquired = False
        """Whether this process became the owner."""
        self.valid_until = 0.0
        """Until when no other process can own the pipeline, in seconds of the clock's `monotonic`."""
        self._clock = clock
        self._lease_s = lease_ms / 1000
        self._tag: str | None = None
        self._record: Record | None = None
        self._renewing: Record | None = None
        """A renewal whose answer was lost."""
        self._lock = threading.Lock()
        self._due = Release()
        self._unneeded: list[str] = []
        """Files without references, to be deleted."""

    @property
    def record(self) -> Record:
        """What the storage says, as far as this owner knows."""
        if self._record is None:
            raise InternalError(f"pipeline {self.id!r} is used before it was acquired")
        return self._record

    def acquire(
        self,
        new_lineage: Callable[[], LineageId],
        *,
        fresh: bool,
        say: Callable[[str], None],
        restoring_older: bool = False,
    ) -> Record | None:
        """Become the owner; returns the record of the run before, None if this is a new lineage.

        A finished lineage is continued only when `restoring_older` to one of its checkpoints.

        Raises:
            ConfigError: a live process owns it, or `fresh` would forget decided work.
        """
        me = self.acquirer.acquire(say)
        current, self._tag = self.acquirer.record, self.acquirer.tag
        if fresh and current is not None:
            self._refuse_to_forget(current)
        if current is None or fresh or (current.status in ("finished", "canceled") and not restoring_older):
            self._swap(Record(VERSION, new_lineage(), Branch(0), "running", me, CheckpointId(0)))
            return None
        # Who did not come to a proper end may have been at the number after the newest.
        passed = 0 if current.status in ("finished", "stopped") else 1
        newest = CheckpointId(current.newest_id + passed)
        self._swap(msgspec.structs.replace(current, lease=me, status="running", renewals=0, newest_id=newest))
        return current

    def refresh(self) -> None:
        """Find out whether a swap whose answer was lost has succeeded; called before a restart relies on the record.

        Raises:
            FencedError: another run owns the pipeline.
        """
        with self._lock:
            record, tag = self._read()
            if record is None or record.lease != self.record.lease:
                raise self._fenced(record)
            self._tag, self._record = tag, record
            # What was read may not be durable yet; what is swapped on top of it is.
            self._swap(msgspec.structs.replace(record, status="running", renewals=record.renewals + 1))

    def use(self, checkpoint: CheckpointId) -> None:
        """Have later runs pass over this number.

        Raises:
            FencedError: another run owns the pipeline.
            UnavailableError: as `decide` does.
        """
        with self._lock:
            if not self.record.passes_over(checkpoint):
                self._swap(msgspec.structs.replace(self.record, newest_id=CheckpointId(checkpoint - 1)))

    def decide(self, checkpoint: CheckpointId) -> None:
        """Make a checkpoint the newest.

        Raises:
            FencedError: another run owns the pipeline.
            UnavailableError: the storage did not answer; if the record is `unchanged`, it will not happen any more.
        """
        faults.point("checkpoint.before-swap")
        with self._lock:
            kept = (*self.record.retained, Retained(self.run, checkpoint))
            self._swap(msgspec.structs.replace(self.record, retained=kept, newest_id=checkpoint))
        faults.point("checkpoint.after-swap")

    def unchanged(self) -> bool:
        """Whether the storage holds what this owner wrote last, so that a change that failed never happened."""
        with self._lock:
            return self._read()[1] == self._tag

    def release(self, release: Release) -> None:
        """Delete released checkpoints and files, after the record no longer names them. One thread at a time.

        Raises:
            UnavailableError: the storage did not answer; what is left goes with the next release.
        """
        with self._lock:
            due = self._due = self._due.joined(release)
            dropped = [known for known in self.record.retained if known.checkpoint in due.checkpoints]
            if dropped:
                kept = tuple(known for known in self.record.retained if known not in dropped)
                self._swap(msgspec.structs.replace(self.record, retained=kept))
            self._due = Release()
            self._unneeded += due.files
            for old in dropped:
                self._unneeded += (
                    metadata_name(old.run, old.checkpoint),
                    settled_name(old.run, old.checkpoint),
                )
        self._blobs.delete(self._unneeded)
        self._unneeded.clear()

    def go_back(self, to: Retained | None) -> None:
        """Forget the decided checkpoints after `to`: nothing of them is visible nor ever will be."""
        with self._lock:
            kept = self.record.retained[: self.record.retained.index(to) + 1] if to is not None else ()
            self._swap(msgspec.structs.replace(self.record, retained=kept))

    def open_branch(self, at: Retained) -> None:
        """Resume from an older checkpoint on a new branch; later output stays committed but is not part of the branch."""
        with self._lock:
            kept = self.record.retained[: self.record.retained.index(at) + 1]
            branch = Branch(self.record.branch + 1)
            self._swap(msgspec.structs.replace(self.record, retained=kept, branch=branch))

    def take_over(self, savepoint: CheckpointId) -> None:
        """Make a savepoint the only checkpoint, under the number it was written with; what was before is history."""
        with self._lock:
            self._swap(
                msgspec.structs.replace(
                    self.record,
                    retained=(Retained(self.run, savepoint),),
                    newest_id=savepoint,
                    branch=Branch(self.record.branch + 1),
                )
            )

    def renew(self) -> None:
        """Show that the owner lives.

        Raises:
            FencedError: another run owns the pipeline.
            UnavailableError: the storage did not answer; call it again.
        """
        with self._lock:
            self._find_renewal()
            renewed = msgspec.structs.replace(self.record, renewals=self.record.renewals + 1)
            try:
                self._swap(renewed)
            except UnavailableError:
                self._renewing = renewed
                raise

    def check_owner(self) -> None:
        """Make sure that this run owns the pipeline; asked right before anything is done outside.

        Raises:
            FencedError: another run owns it.
            UnavailableError: the storage did not answer.
        """
        record, _ = self._read()
        if record is None or record.lease != self.record.lease:
            raise self._fenced(record)

    def leave(self, status: Status) -> None:
        """Release the pipeline; the next start resumes from here or, after `finished` and `canceled`, has no state."""
        with self._lock:
            self._swap(msgspec.structs.replace(self.record, status=status))

    def _refuse_to_forget(self, current: Record) -> None:
        open_work = [
            r
            for r in current.retained
            if not self.archive.settled(r) and any(u.committables for u in self.archive.load(r).unsettled)
        ]
        if open_work:
            raise ConfigError(
                f"pipeline {self.id!r}: checkpoint {open_work[-1].checkpoint} is decided but not settled, "
                "so --fresh could lose its output; start once without --fresh to settle it"
            )

    def _read(self) -> tuple[Record | None, str | None]:
        return read_record(self._decisions, self.id)

    def _swap(self, record: Record) -> None:
        self._find_renewal()
        data, began = msgspec.msgpack.encode(record), self._clock.monotonic()
        self._decisions.swap(self._name, self._tag, data)
        # What counts is what is there now, whether the swap said so or its answer was lost.
        decision = self._decisions.read(self._name)
        if decision is None:
            raise InternalError(f"{self._name} vanished after it was swapped")
        if decision.data != data:
            found = msgspec.msgpack.decode(decision.data, type=Record)
            if self._record is not None and found.lease == self._record.lease:
                raise UnavailableError(
                    f"pipeline {self.id!r}: the storage has an earlier change of this run whose answer was lost; refresh first"
                )
            raise self._fenced(found)
        self._tag, self._record, self.acquired = decision.tag, record, True
        self.valid_until = began + self._lease_s

    def _find_renewal(self) -> None:
        """Learn whether a renewal whose answer was lost took place; it changed nothing but the tag."""
        renewed, self._renewing = self._renewing, None
        if renewed is not None:
            decision = self._decisions.read(self._name)
            if decision is not None and decision.data == msgspec.msgpack.encode(renewed):
                self._tag, self._record = decision.tag, renewed

    def _fenced(self, record: Record | None) -> FencedError:
        owner = (
            f"run {record.lease.run} (pid {record.lease.pid} on {record.lease.host})" if record else "no run"
        )
        return FencedError(f"pipeline {self.id!r} is now owned by {owner}; run {self.run} stops")
