"""External state of the simulation, which survives crashes: the checkpoint storage and the sinks' system."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from tidegate.backends.spi import InlineChunk, StoredChunk
from tidegate.errors import FencedError, InternalError
from tidegate.ids import CheckpointId, RunId
from tidegate.runtime.checkpoint.manifest import Manifest, decode, encode, files_of, stored
from tidegate.runtime.checkpoint.retention import Release
from tidegate.twophase.fencing import Lease
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Retry

__all__ = [
    "Kept",
    "Outside",
    "Record",
    "Storage",
    "check_owner",
    "fencing",
    "in_flight",
    "records_of",
    "require",
]

Record = tuple[int, int]
"""A source and the position in it."""

Kept = tuple[int, CheckpointId]
"""A term and the checkpoint decided in it."""


def require(holds: bool, what: str) -> None:
    """Every invariant is checked through here.

    Raises:
        InternalError: it does not hold.
    """
    if not holds:
        raise InternalError(what)


@dataclass
class Storage:
    """Files, metadata, and the record of the pipeline's owner and decided checkpoints."""

    exactly_once: bool = True
    files: dict[str, frozenset[Record]] = field(default_factory=dict)
    metadata: dict[Kept, bytes] = field(default_factory=dict)
    needed: dict[Kept, frozenset[str]] = field(default_factory=dict)
    """The files that the metadata of a checkpoint names."""
    settled: set[Kept] = field(default_factory=set)
    retained: list[Kept] = field(default_factory=list)
    newest_id: CheckpointId = CheckpointId(0)
    lease: Lease | None = None
    renewals: int = 0
    attempts: int = 0
    promised: set[Committable] = field(default_factory=set)

    @property
    def term(self) -> int:
        """That of the owner."""
        return self.lease.term if self.lease is not None else 0

    def acquire(self, lease: Lease) -> None:
        """Change the owner; who was it before may have been at the number after the newest one."""
        require(lease.term > self.term, f"term {lease.term} follows term {self.term}")
        self.newest_id = CheckpointId(self.newest_id + (self.lease is not None))
        self.lease, self.renewals = lease, 0

    def owned(self, run: RunId) -> bool:
        """Whether a run may change the record."""
        return self.lease is not None and self.lease.run == run

    def use(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """Have later owners pass over a number; False if there is a newer owner."""
        if checkpoint <= self.newest_id + 1:
            return True
        if self.owned(run):
            self.newest_id = CheckpointId(checkpoint - 1)
        return self.owned(run)

    def write(self, term: int, manifest: Manifest) -> frozenset[str]:
        """Make metadata durable."""
        kept = (term, manifest.checkpoint)
        self.metadata[kept] = encode(manifest)
        self.needed[kept] = files_of(manifest)
        return self.needed[kept]

    def load(self, kept: Kept) -> Manifest:
        """Read metadata."""
        require(kept in self.metadata, f"the metadata of retained {kept} was deleted")
        return decode(self.metadata[kept], str(kept))

    def swap(self, run: RunId, term: int, checkpoint: CheckpointId) -> bool:
        """Decide; False if there is a newer owner."""
        if not self.owned(run):
            return False
        require(checkpoint > self.newest_id, f"checkpoint {checkpoint} is decided after {self.newest_id}")
        manifest = self.load((term, checkpoint))
        self._check_cut(manifest)
        self.retained.append((term, checkpoint))
        self.newest_id = checkpoint
        self.promised.update(work for each in manifest.unsettled for work in each.committables)
        self._check()
        return True

    def release(self, release: Release) -> None:
        """Drop checkpoints, then delete files that only they needed."""
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
        self._check()

    def newest_settled(self) -> Kept | None:
        """The newest checkpoint whose output is known to be visible."""
        return next((kept for kept in reversed(self.retained) if kept in self.settled), None)

    def content(self, manifest: Manifest) -> frozenset[Record]:
        """All records that the state of a checkpoint has seen."""
        return self.union(name for op in manifest.operators for name in stored(op.keyed))

    def union(self, names: Iterable[str]) -> frozenset[Record]:
        """All records that these files hold."""
        seen: frozenset[Record] = frozenset()
        for name in names:
            require(name in self.files, f"file {name} is needed but was deleted")
            seen |= self.files[name]
        return seen

    def chunk(self, name: str, content: frozenset[Record]) -> StoredChunk:
        """Write a file."""
        require(name not in self.files, f"file {name} is written twice")
        self.files[name] = content
        return StoredChunk(name, 1, 0)

    def _check(self) -> None:
        """Every file of every retained checkpoint is there."""
        for kept in self.retained:
            require(kept in self.metadata, f"the metadata of retained {kept} was deleted")
            missing = self.needed[kept] - self.files.keys()
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
        require(known >= expected, f"checkpoint {manifest.checkpoint} has lost {expected - known}")
        if self.exactly_once:
            require(
                known == expected,
                f"checkpoint {manifest.checkpoint} knows {known - expected}, which will be read again",
            )


@dataclass
class Outside:
    """A system with transactions: committed records are visible forever, aborted ones never.

    A transaction belongs to a producer, which has an id and an epoch. Who begins under an id gets the next epoch, and the
    producer before it is refused from then on. There are few ids, which say nothing of their owner.
    """

    chance: random.Random
    epochs: dict[str, int] = field(default_factory=dict)
    """The newest producer of each id."""
    terms: dict[str, int] = field(default_factory=dict)
    """Under which owner that began."""
    prepared: set[Committable] = field(default_factory=set)
    aborted: set[Committable] = field(default_factory=set)
    done: set[Committable] = field(default_factory=set)
    visible: Counter[Record] = field(default_factory=Counter)
    exactly_once: bool = True
    faulty: bool = True

    def commit(self, work: Committable, storage: Storage) -> Answer:
        """Make work visible; idempotent."""
        require(work in storage.promised, f"{work.describe} is committed but was never decided")
        if self.faulty and self.chance.random() < 0.1:
            return Retry("the system does not answer")
        if work in self.done:
            return CommitAnswer.ALREADY_COMMITTED
        if work in self.aborted:
            return CommitAnswer.ABORTED
        require(work in self.prepared, f"{work.describe} was decided but is lost")
        self.prepared.remove(work)
        self.done.add(work)
        self.visible.update(records_of(work))
        twice = [record for record in records_of(work) if self.visible[record] > 1]
        require(not (twice and self.exactly_once), f"{twice} are visible twice")
        return (
            CommitAnswer.UNKNOWN if self.faulty and self.chance.random() < 0.003 else CommitAnswer.COMMITTED
        )

    def begin(self, name: str, term: int) -> int:
        """A new producer under an id; its prepared, invisible records are lost."""
        known = self.terms.setdefault(name, term)
        require(known <= term, f"a worker of term {term} begins under {name}, which is of term {known}")
        self.terms[name] = term
        self.prepared = {work for work in self.prepared if _id_of(work) != name}
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def prepare(self, name: str, epoch: int, work: Committable) -> None:
        """Prepare a producer's transaction; the one it had before and did not end is lost.

        Raises:
            FencedError: a newer producer has the id.
        """
        if self.epochs[name] != epoch:
            raise FencedError(f"epoch {epoch} of {name} was fenced")
        self.prepared = {other for other in self.prepared if _id_of(other) != name}
        self.prepared.add(work)

    def fence(self, producers: Mapping[str, int], storage: Storage, term: int) -> None:
        """Abort what these producers have prepared, and refuse them; not those whose id has a newer one."""
        for name, epoch in producers.items():
            if self.epochs[name] == epoch:
                require(self.terms[name] <= term, f"term {term} fences {name} of term {self.terms[name]}")
                doomed = [work for work in self.prepared if _id_of(work) == name]
                decided = [work.describe for work in doomed if work in storage.promised]
                require(not decided, f"{decided} were decided but are removed")
                self.abort(doomed)
                self.epochs[name] += 1

    def abort(self, some: Iterable[Committable]) -> None:
        """Make work invisible for ever."""
        for work in list(some):
            self.prepared.remove(work)
            self.aborted.add(work)


def check_owner(storage: Storage, run: RunId) -> None:
    """Raises a FencedError if the pipeline has a newer owner."""
    if not storage.owned(run):
        raise FencedError(f"{run} was replaced by term {storage.term}")


def fencing(outside: Outside, storage: Storage, run: RunId, term: int) -> Iterator[None]:
    """Refuse all producers there are, in the name of an owner that may be stopped at each `yield`: look, check, act.

    Raises:
        FencedError: the pipeline has a newer owner.
    """
    seen = dict(outside.epochs)
    check_owner(storage, run)
    yield
    outside.fence(seen, storage, term)


def in_flight(manifest: Manifest) -> list[Record]:
    """The records that a checkpoint has overtaken."""
    chunks = (chunk for op in manifest.operators for chunk in op.in_flight if isinstance(chunk, InlineChunk))
    return [tuple(record) for chunk in chunks for record in msgspec.msgpack.decode(chunk.data)]


def records_of(work: Committable) -> list[Record]:
    """The records behind a committable."""
    return [tuple(record) for record in msgspec.msgpack.decode(work.payload)]


def _id_of(work: Committable) -> str:
    return work.describe.partition("@")[0]
