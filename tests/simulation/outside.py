"""What survives a crash in the simulation: the checkpoint storage and the system that sinks write to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from tidegate.backends.spi import InlineChunk, StoredChunk
from tidegate.ids import CheckpointId
from tidegate.runtime.checkpoint.manifest import Manifest, decode, encode, files_of, stored
from tidegate.runtime.checkpoint.retention import Release
from tidegate.twophase.spi import CommitAnswer, Committable

__all__ = ["InvariantError", "Outside", "Record", "Storage", "in_flight", "records_of", "require"]

Record = tuple[int, int]
"""A source and the position in it."""

Kept = tuple[int, CheckpointId]
"""A term and the checkpoint decided in it."""


class InvariantError(AssertionError):
    """An invariant does not hold."""


def require(holds: bool, what: str) -> None:
    """Every invariant is checked through here."""
    if not holds:
        raise InvariantError(what)


@dataclass
class Storage:
    """Files, metadata, and the one record that says who owns the pipeline and what is decided."""

    files: dict[str, frozenset[Record]] = field(default_factory=dict)
    metadata: dict[Kept, bytes] = field(default_factory=dict)
    settled: set[Kept] = field(default_factory=set)
    retained: list[Kept] = field(default_factory=list)
    newest_id: CheckpointId = CheckpointId(0)
    term: int = 0
    promised: set[Committable] = field(default_factory=set)

    def write(self, term: int, manifest: Manifest) -> frozenset[str]:
        self.metadata[term, manifest.checkpoint] = encode(manifest)
        return files_of(manifest)

    def load(self, kept: Kept) -> Manifest:
        require(kept in self.metadata, f"the metadata of retained {kept} is gone")
        return decode(self.metadata[kept], str(kept))

    def swap(self, term: int, checkpoint: CheckpointId) -> bool:
        """Decide; False if there is a newer owner."""
        if term != self.term:
            return False
        require(checkpoint > self.newest_id, f"checkpoint {checkpoint} is decided after {self.newest_id}")
        manifest = self.load((term, checkpoint))
        self._check_cut(manifest)
        self.retained.append((term, checkpoint))
        self.newest_id = checkpoint
        self.promised.update(work for each in manifest.unsettled for work in each.committables)
        return True

    def release(self, release: Release) -> None:
        """Forget checkpoints, then delete what they alone needed."""
        dropped = [kept for kept in self.retained if kept[1] in release.checkpoints]
        newest_settled = max((kept for kept in self.retained if kept in self.settled), default=None)
        require(
            all(newest_settled is not None and kept < newest_settled for kept in dropped),
            f"{dropped} were dropped while {newest_settled} is the newest settled",
        )
        self.retained = [kept for kept in self.retained if kept not in dropped]
        for kept in dropped:
            del self.metadata[kept]
        for name in release.files:
            self.files.pop(name, None)

    def newest_settled(self) -> Kept | None:
        return next((kept for kept in reversed(self.retained) if kept in self.settled), None)

    def content(self, manifest: Manifest) -> frozenset[Record]:
        """All records that the state of a checkpoint has seen."""
        return self.union(name for op in manifest.operators for name in stored(op.keyed))

    def union(self, names: Iterable[str]) -> frozenset[Record]:
        seen: frozenset[Record] = frozenset()
        for name in names:
            require(name in self.files, f"file {name} is needed and gone")
            seen |= self.files[name]
        return seen

    def chunk(self, name: str, content: frozenset[Record]) -> StoredChunk:
        require(name not in self.files, f"file {name} is written twice")
        self.files[name] = content
        return StoredChunk(name, 1, 0)

    def check(self) -> None:
        """Every file of every retained checkpoint is there."""
        for kept in self.retained:
            missing = files_of(self.load(kept)) - self.files.keys()
            require(not missing, f"{kept} is retained and its files {missing} were released")

    def _check_cut(self, manifest: Manifest) -> None:
        """A decided checkpoint has seen all records before the sources' positions and no other."""
        positions = [msgspec.msgpack.decode(split) for op in manifest.operators for split in op.splits]
        expected = {(source, n) for source, end in positions for n in range(end)}
        on_their_way = in_flight(manifest)
        require(len(set(on_their_way)) == len(on_their_way), f"{on_their_way} are kept twice")
        require(
            not self.content(manifest) & set(on_their_way), f"{on_their_way} have had their effect already"
        )
        known = self.content(manifest) | set(on_their_way)
        require(known == expected, f"checkpoint {manifest.checkpoint} is no consistent cut")


@dataclass
class Outside:
    """A system with transactions: what is committed is visible for ever, what is aborted never."""

    chance: random.Random
    prepared: set[Committable] = field(default_factory=set)
    aborted: set[Committable] = field(default_factory=set)
    done: set[Committable] = field(default_factory=set)
    visible: Counter[Record] = field(default_factory=Counter)
    faulty: bool = True

    def commit(self, work: Committable, storage: Storage) -> CommitAnswer:
        """Make work visible; idempotent."""
        require(work in storage.promised, f"{work.describe} is committed and was never decided")
        if self.faulty and self.chance.random() < 0.1:
            return CommitAnswer.RETRY
        if work in self.done:
            return CommitAnswer.ALREADY_COMMITTED
        if work in self.aborted:
            return CommitAnswer.ABORTED
        require(work in self.prepared, f"{work.describe} was decided and is lost")
        self.prepared.remove(work)
        self.done.add(work)
        self.visible.update(records_of(work))
        twice = [record for record in records_of(work) if self.visible[record] > 1]
        require(not twice, f"{twice} are visible twice")
        return (
            CommitAnswer.UNKNOWN if self.faulty and self.chance.random() < 0.003 else CommitAnswer.COMMITTED
        )

    def abort(self, some: Iterable[Committable]) -> None:
        """Transactions that time out, or that nobody will ever decide."""
        for work in list(some):
            self.prepared.remove(work)
            self.aborted.add(work)


def in_flight(manifest: Manifest) -> list[Record]:
    """The records that a checkpoint has overtaken."""
    chunks = (chunk for op in manifest.operators for chunk in op.in_flight if isinstance(chunk, InlineChunk))
    return [tuple(record) for chunk in chunks for record in msgspec.msgpack.decode(chunk.data)]


def records_of(work: Committable) -> list[Record]:
    """The records behind a committable."""
    return [tuple(record) for record in msgspec.msgpack.decode(work.payload)]
