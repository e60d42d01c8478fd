"""Mutations: state machines with one deliberate error each; `docs/proof.md` lists the invariant that each one breaks."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidegate.backends.spi import StoredChunk
from tidegate.elements import Barrier
from tidegate.ids import CheckpointId, FencingTerm, RunId, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.retention import FileRegistry, Release
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.schedule import failover as fo
from tidegate.runtime.schedule.heartbeats import Ask, Heartbeats, Silent
from tidegate.runtime.task.alignment import (
    Action,
    Alignment,
    BarrierArrived,
    Block,
    Event,
    TakeSnapshot,
)
from tidegate.runtime.worker_lease import WorkerLease
from tidegate.testing.simulation import Machines
from tidegate.testing.simulation.outside import Outside, Record, Storage, check_owner, in_flight
from tidegate.testing.simulation.tasks import Report, SinkTask
from tidegate.twophase import ledger
from tidegate.twophase.fencing import Lease, Take, Verdict, judge
from tidegate.twophase.spi import CommitAnswer, Retry

__all__ = ["MUTATIONS"]


class CommitsBeforeDeciding(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        written = [action for action in actions if isinstance(action, cp.WriteMetadata)]
        return actions + [cp.Commit(each.checkpoint, each.unsettled[-1].committables) for each in written]


class DecidesBeforeMetadataIsDurable(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        written = [action for action in actions if isinstance(action, cp.WriteMetadata)]
        return [cp.SwapLatest(action.checkpoint) for action in written] + actions


class IgnoresAMissingAck(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        if isinstance(event, cp.Ack) and self._pending is not None and len(self._pending.missing) > 2:
            self._pending.missing.discard(Subtask("count", 1))
        return super().on(event)


class TreatsDeclineAsAck(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        return super().on(
            cp.Ack(event.subtask, event.checkpoint, ()) if isinstance(event, cp.Decline) else event
        )


class ReusesCheckpointId(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if isinstance(event, cp.Swapped):
            self.next_id = event.checkpoint
        return actions


class ReusesIdOfAbortedCheckpoint(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        for action in actions:
            if isinstance(action, cp.Abort):
                self.next_id = action.checkpoint
        return actions


class TriggersTwoCheckpointsAtOnce(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        if isinstance(event, cp.Tick) and event.now_ms % 3 == 0:
            self._pending = None
        return super().on(event)


class SettlesWithoutCommitAnswers(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        return [
            cp.Settle(action.checkpoint) if isinstance(action, cp.Commit) else action
            for action in super().on(event)
        ]


class TakesUnalignedSavepoints(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if self._plan.aligned_ms == 0:
            begun = [action for action in actions if isinstance(action, cp.Trigger)]
            actions += [cp.Announce(each.checkpoint, each.confirmed) for each in begun]
        return actions


class DeletesSharedFiles(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        files = dict(self._files)
        release = super().settled(checkpoint)
        return Release(release.checkpoints, release.files.union(*(files[old] for old in release.checkpoints)))


class IgnoresPins(FileRegistry):
    def pin(self, checkpoint: CheckpointId) -> None:
        pass


class DropsNewerCheckpoints(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        super().settled(checkpoint)
        return Release(tuple(known for known in self._files if known >= checkpoint), frozenset())


class DropsNewestSettledCheckpoint(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        release = super().settled(checkpoint)
        return Release((*release.checkpoints, checkpoint), release.files)


class TreatsRetryAsCommitted(ledger.Ledger):
    def on(self, event: ledger.Event) -> list[ledger.Action]:
        if isinstance(event, ledger.Answered):
            answers = tuple(
                (work, CommitAnswer.COMMITTED if isinstance(answer, Retry) else answer)
                for work, answer in event.answers
            )
            event = ledger.Answered(event.checkpoint, answers)
        return super().on(event)


class TreatsAbortedAsCommitted(ledger.Ledger):
    def on(self, event: ledger.Event) -> list[ledger.Action]:
        if isinstance(event, ledger.Answered):
            answers = tuple((work, CommitAnswer.ALREADY_COMMITTED) for work, _ in event.answers)
            event = ledger.Answered(event.checkpoint, answers)
        return super().on(event)


class CommitsOutOfOrder(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if isinstance(event, cp.Swapped) and not any(isinstance(each, cp.Commit) for each in actions):
            work = self.unsettled.get(event.checkpoint, ())
            actions += [cp.Commit(event.checkpoint, work)] if work else []
        return actions


class NeverBlocksChannels(Alignment):
    def on(self, event: Event) -> list[Action]:
        return [action for action in super().on(event) if not isinstance(action, Block)]


class SnapshotsAtFirstBarrier(Alignment):
    def on(self, event: Event) -> list[Action]:
        if not isinstance(event, BarrierArrived) or event.checkpoint <= getattr(self, "_last", 0):
            return []
        self._last = event.checkpoint
        return [TakeSnapshot(event.checkpoint)]


class RestartsBeforeOutputIsVisible(fo.Failover):
    def on(self, event: fo.PartFailed | fo.Tick) -> list[fo.Stop | fo.Start | fo.GiveUp]:
        return super().on(fo.Tick(event.now_ms, quiet=True) if isinstance(event, fo.Tick) else event)


class NeverDeclaresWorkerLost(Heartbeats):
    def tick(self, now_ms: int) -> list[Ask | Silent]:
        return [beat for beat in super().tick(now_ms) if isinstance(beat, Ask)]


class CountsTimeWhileSuspended(Heartbeats):
    def tick(self, now_ms: int) -> list[Ask | Silent]:
        self._interval_ms = now_ms
        return super().tick(now_ms)


def takes_lease_of_live_owner(current: Lease | None, me: Lease, **known: Any) -> Verdict:
    return judge(current, me, **{**known, "holder_alive": False})


def takes_over_before_lease_expires(current: Lease | None, me: Lease, **known: Any) -> Verdict:
    return judge(current, me, **{**known, "lease_ms": known["lease_ms"] // 2})


def reuses_term(current: Lease | None, me: Lease, **known: Any) -> Verdict:
    verdict = judge(current, me, **known)
    if isinstance(verdict, Take) and current is not None:
        return Take(FencingTerm(current.term))
    return verdict


def lists_producers_after_ownership_check(
    outside: Outside, storage: Storage, run: RunId, term: int
) -> Iterator[None]:
    check_owner(storage, run)
    yield
    outside.fence(dict(outside.epochs), storage, term)


def fences_newer_epochs(outside: Outside, storage: Storage, run: RunId, term: int) -> Iterator[None]:
    seen = dict(outside.epochs)
    check_owner(storage, run)
    yield
    outside.fence({name: outside.epochs[name] for name in seen}, storage, term)


def fences_without_ownership_check(
    outside: Outside, storage: Storage, run: RunId, term: int
) -> Iterator[None]:
    yield
    outside.fence(dict(outside.epochs), storage, term)


class IgnoresExpiredLease(WorkerLease):
    def holds(self) -> bool:
        return True


class DropsInFlightRecords(SinkTask):
    def _recorded(self) -> OperatorReport:
        return msgspec.structs.replace(super()._recorded(), in_flight=None)


class DropsUnprocessedBacklog(SinkTask):
    def announce(self, barrier: Barrier, *, compact: bool) -> list[Report]:
        waiting, self.replay = self.replay, deque()
        try:
            return super().announce(barrier, compact=compact)
        finally:
            self.replay = waiting


class ProcessesNewRecordsBeforeBacklog(SinkTask):
    @property
    def ready(self) -> list[int]:
        first = next(iter(self.channels))
        return [n for n, channel in self.channels.items() if channel] or [first] * bool(self.replay)

    def take(self, channel: int, *, compact: bool) -> list[Report]:
        waiting, self.replay = self.replay, deque() if self.channels[channel] else self.replay
        try:
            return super().take(channel, compact=compact)
        finally:
            self.replay = waiting


class RestoresInFlightRecordsOfAllSubtasks(SinkTask):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restored[0] is not None:
            self.replay = deque(in_flight(self.storage.load(self.storage.retained[-1])))


class SkipsUploadOfExistingFile(SinkTask):
    def _upload(self, checkpoint: CheckpointId, content: frozenset[Record]) -> StoredChunk:
        name = f"{self.subtask}/{len(self.seen)}"
        return StoredChunk(name, 1, 0) if name in self.storage.files else self.storage.chunk(name, content)


class PreparesAfterSnapshot(SinkTask):
    def _snapshot(self, barrier: Barrier, *, compact: bool) -> OperatorReport:
        kept, self.buffer = self.buffer, []
        report = super()._snapshot(barrier, compact=compact)
        self.buffer = kept
        return report


class ReusesTransactionBeforeCommit(SinkTask):
    def _prepare(self, checkpoint: CheckpointId) -> None:
        self.in_use = dict(itertools.islice(self.in_use.items(), 1, None))
        super()._prepare(checkpoint)


class DropsUnconfirmedOutput(SinkTask):
    def _prepare(self, checkpoint: CheckpointId) -> None:
        self.unconfirmed = []
        super()._prepare(checkpoint)


MUTATIONS: dict[Callable[..., Any], tuple[Machines, str]] = {
    CommitsBeforeDeciding: (Machines(coordinator=CommitsBeforeDeciding), "was never decided"),
    DecidesBeforeMetadataIsDurable: (
        Machines(coordinator=DecidesBeforeMetadataIsDurable),
        "the metadata of retained .* was deleted",
    ),
    IgnoresAMissingAck: (Machines(coordinator=IgnoresAMissingAck), "breaks key_groups_are_covered_once"),
    TreatsDeclineAsAck: (
        Machines(coordinator=TreatsDeclineAsAck),
        "breaks key_groups_are_covered_once",
    ),
    ReusesCheckpointId: (Machines(coordinator=ReusesCheckpointId), "is triggered after .* was decided"),
    ReusesIdOfAbortedCheckpoint: (
        Machines(coordinator=ReusesIdOfAbortedCheckpoint),
        "is triggered for the second time",
    ),
    TriggersTwoCheckpointsAtOnce: (
        Machines(coordinator=TriggersTwoCheckpointsAtOnce),
        "is triggered while .* is pending",
    ),
    SettlesWithoutCommitAnswers: (
        Machines(coordinator=SettlesWithoutCommitAnswers),
        "is settled but .* are not visible",
    ),
    CommitsOutOfOrder: (Machines(coordinator=CommitsOutOfOrder), "settlement is out of order"),
    TakesUnalignedSavepoints: (Machines(coordinator=TakesUnalignedSavepoints), "holds in-flight records"),
    DeletesSharedFiles: (Machines(registry=DeletesSharedFiles), "were released"),
    IgnoresPins: (Machines(registry=IgnoresPins), "was deleted before its savepoint is written"),
    DropsNewerCheckpoints: (
        Machines(registry=DropsNewerCheckpoints),
        "were dropped while .* is the newest settled",
    ),
    DropsNewestSettledCheckpoint: (
        Machines(registry=DropsNewestSettledCheckpoint),
        "were dropped while .* is the newest settled",
    ),
    TreatsRetryAsCommitted: (Machines(ledger=TreatsRetryAsCommitted), "are not visible"),
    TreatsAbortedAsCommitted: (Machines(ledger=TreatsAbortedAsCommitted), "are not visible"),
    NeverBlocksChannels: (Machines(alignment=NeverBlocksChannels), "which will be read again"),
    SnapshotsAtFirstBarrier: (Machines(alignment=SnapshotsAtFirstBarrier), "has lost"),
    RestartsBeforeOutputIsVisible: (
        Machines(failover=RestartsBeforeOutputIsVisible),
        "were decided but are removed",
    ),
    NeverDeclaresWorkerLost: (Machines(heartbeats=NeverDeclaresWorkerLost), "is not declared lost"),
    CountsTimeWhileSuspended: (Machines(heartbeats=CountsTimeWhileSuspended), "was declared lost after"),
    takes_lease_of_live_owner: (
        Machines(judge=takes_lease_of_live_owner),
        "while the owner runs|an owner is replaced",
    ),
    takes_over_before_lease_expires: (
        Machines(judge=takes_over_before_lease_expires),
        "an owner is replaced after",
    ),
    reuses_term: (Machines(judge=reuses_term), "term 1 follows term 1"),
    DropsInFlightRecords: (Machines(sink=DropsInFlightRecords), "has lost"),
    DropsUnprocessedBacklog: (Machines(sink=DropsUnprocessedBacklog), "has lost"),
    ProcessesNewRecordsBeforeBacklog: (Machines(sink=ProcessesNewRecordsBeforeBacklog), "comes after"),
    RestoresInFlightRecordsOfAllSubtasks: (
        Machines(sink=RestoresInFlightRecordsOfAllSubtasks),
        "visible twice|had their effect",
    ),
    SkipsUploadOfExistingFile: (Machines(sink=SkipsUploadOfExistingFile), "has lost"),
    PreparesAfterSnapshot: (Machines(sink=PreparesAfterSnapshot), "are not visible"),
    ReusesTransactionBeforeCommit: (
        Machines(sink=ReusesTransactionBeforeCommit),
        "was decided but is lost",
    ),
    DropsUnconfirmedOutput: (Machines(sink=DropsUnconfirmedOutput), "are not visible"),
    lists_producers_after_ownership_check: (
        Machines(fencing=lists_producers_after_ownership_check),
        "term \\d+ fences .* of term",
    ),
    fences_newer_epochs: (Machines(fencing=fences_newer_epochs), "term \\d+ fences .* of term"),
    fences_without_ownership_check: (
        Machines(fencing=fences_without_ownership_check),
        "term \\d+ fences .* of term",
    ),
    IgnoresExpiredLease: (Machines(lease=IgnoresExpiredLease), "a worker of term \\d+ begins under"),
}
"""Each mutation with the message of the invariant that detects it."""
