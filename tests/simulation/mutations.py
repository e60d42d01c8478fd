"""Machines that are wrong in one way each; `docs/proof.md` says which invariant each of them breaks."""

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


class ForgetsAnAck(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        if isinstance(event, cp.Ack) and self._pending is not None and len(self._pending.missing) > 2:
            self._pending.missing.discard(Subtask("count", 1))
        return super().on(event)


class TakesADeclineForAnAck(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        return super().on(
            cp.Ack(event.subtask, event.checkpoint, ()) if isinstance(event, cp.Decline) else event
        )


class ReusesANumber(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if isinstance(event, cp.Swapped):
            self.next_id = event.checkpoint
        return actions


class ReusesTheNumberOfAnAbortedOne(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        for action in actions:
            if isinstance(action, cp.Abort):
                self.next_id = action.checkpoint
        return actions


class TriggersTwoAtOnce(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        if isinstance(event, cp.Tick) and event.now_ms % 3 == 0:
            self._pending = None
        return super().on(event)


class SettlesWithoutAnswers(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        return [
            cp.Settle(action.checkpoint) if isinstance(action, cp.Commit) else action
            for action in super().on(event)
        ]


class AnnouncesSavepoints(CheckpointCoordinator):
    def on(self, event: cp.Event) -> list[cp.Action]:
        actions = super().on(event)
        if self._plan.aligned_ms == 0:
            begun = [action for action in actions if isinstance(action, cp.Trigger)]
            actions += [cp.Announce(each.checkpoint, each.confirmed) for each in begun]
        return actions


class IgnoresWhoElseRefers(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        files = dict(self._files)
        release = super().settled(checkpoint)
        return Release(release.checkpoints, release.files.union(*(files[old] for old in release.checkpoints)))


class ForgetsWhoReads(FileRegistry):
    def pin(self, checkpoint: CheckpointId) -> None:
        pass


class DropsWhatIsNewer(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        super().settled(checkpoint)
        return Release(tuple(known for known in self._files if known >= checkpoint), frozenset())


class DropsTheNewestSettled(FileRegistry):
    def settled(self, checkpoint: CheckpointId) -> Release:
        release = super().settled(checkpoint)
        return Release((*release.checkpoints, checkpoint), release.files)


class TakesRetryForCommitted(ledger.Ledger):
    def on(self, event: ledger.Event) -> list[ledger.Action]:
        if isinstance(event, ledger.Answered):
            answers = tuple(
                (work, CommitAnswer.COMMITTED if isinstance(answer, Retry) else answer)
                for work, answer in event.answers
            )
            event = ledger.Answered(event.checkpoint, answers)
        return super().on(event)


class TakesAbortedForCommitted(ledger.Ledger):
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


class NeverBlocks(Alignment):
    def on(self, event: Event) -> list[Action]:
        return [action for action in super().on(event) if not isinstance(action, Block)]


class SnapshotsAtTheFirstBarrier(Alignment):
    def on(self, event: Event) -> list[Action]:
        if not isinstance(event, BarrierArrived) or event.checkpoint <= getattr(self, "_last", 0):
            return []
        self._last = event.checkpoint
        return [TakeSnapshot(event.checkpoint)]


class RestartsBeforeAllIsVisible(fo.Failover):
    def on(self, event: fo.PartFailed | fo.Tick) -> list[fo.Stop | fo.Start | fo.GiveUp]:
        return super().on(fo.Tick(event.now_ms, quiet=True) if isinstance(event, fo.Tick) else event)


class NeverGivesUp(Heartbeats):
    def tick(self, now_ms: int) -> list[Ask | Silent]:
        return [beat for beat in super().tick(now_ms) if isinstance(beat, Ask)]


class CountsWhenItStoodStill(Heartbeats):
    def tick(self, now_ms: int) -> list[Ask | Silent]:
        self._interval_ms = now_ms
        return super().tick(now_ms)


def takes_from_the_living(current: Lease | None, me: Lease, **known: Any) -> Verdict:
    return judge(current, me, **{**known, "holder_alive": False})


def takes_over_too_soon(current: Lease | None, me: Lease, **known: Any) -> Verdict:
    return judge(current, me, **{**known, "lease_ms": known["lease_ms"] // 2})


def repeats_a_term(current: Lease | None, me: Lease, **known: Any) -> Verdict:
    verdict = judge(current, me, **known)
    if isinstance(verdict, Take) and current is not None:
        return Take(FencingTerm(current.term))
    return verdict


def fences_what_it_finds_after_the_check(
    outside: Outside, storage: Storage, run: RunId, term: int
) -> Iterator[None]:
    check_owner(storage, run)
    yield
    outside.fence(dict(outside.epochs), storage, term)


def fences_newer_epochs_too(outside: Outside, storage: Storage, run: RunId, term: int) -> Iterator[None]:
    seen = dict(outside.epochs)
    check_owner(storage, run)
    yield
    outside.fence({name: outside.epochs[name] for name in seen}, storage, term)


def fences_without_a_check(outside: Outside, storage: Storage, run: RunId, term: int) -> Iterator[None]:
    yield
    outside.fence(dict(outside.epochs), storage, term)


class WorksOnUnderAnyLease(WorkerLease):
    def holds(self) -> bool:
        return True


class DropsWhatItHasOvertaken(SinkTask):
    def _recorded(self) -> OperatorReport:
        return msgspec.structs.replace(super()._recorded(), in_flight=None)


class KeepsOnlyWhatCameSince(SinkTask):
    def announce(self, barrier: Barrier, *, compact: bool) -> list[Report]:
        waiting, self.replay = self.replay, deque()
        try:
            return super().announce(barrier, compact=compact)
        finally:
            self.replay = waiting


class WorksOffNewRecordsFirst(SinkTask):
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


class WorksOffWhatOthersHaveToo(SinkTask):
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restored[0] is not None:
            self.replay = deque(in_flight(self.storage.load(self.storage.retained[-1])))


class SkipsAnUploadBecauseTheFileIsThere(SinkTask):
    def _upload(self, checkpoint: CheckpointId, content: frozenset[Record]) -> StoredChunk:
        name = f"{self.subtask}/{len(self.seen)}"
        return StoredChunk(name, 1, 0) if name in self.storage.files else self.storage.chunk(name, content)


class PreparesAfterTheSnapshot(SinkTask):
    def _snapshot(self, barrier: Barrier, *, compact: bool) -> OperatorReport:
        kept, self.buffer = self.buffer, []
        report = super()._snapshot(barrier, compact=compact)
        self.buffer = kept
        return report


class ReusesATransactionBeforeItsWorkIsVisible(SinkTask):
    def _prepare(self, checkpoint: CheckpointId) -> None:
        self.in_use = dict(itertools.islice(self.in_use.items(), 1, None))
        super()._prepare(checkpoint)


class ForgetsWhatWasNotConfirmed(SinkTask):
    def _prepare(self, checkpoint: CheckpointId) -> None:
        self.unconfirmed = []
        super()._prepare(checkpoint)


MUTATIONS: dict[Callable[..., Any], tuple[Machines, str]] = {
    CommitsBeforeDeciding: (Machines(coordinator=CommitsBeforeDeciding), "was never decided"),
    DecidesBeforeMetadataIsDurable: (
        Machines(coordinator=DecidesBeforeMetadataIsDurable),
        "the metadata of retained .* was deleted",
    ),
    ForgetsAnAck: (Machines(coordinator=ForgetsAnAck), "breaks key_groups_are_covered_once"),
    TakesADeclineForAnAck: (
        Machines(coordinator=TakesADeclineForAnAck),
        "breaks key_groups_are_covered_once",
    ),
    ReusesANumber: (Machines(coordinator=ReusesANumber), "is triggered after .* was decided"),
    ReusesTheNumberOfAnAbortedOne: (
        Machines(coordinator=ReusesTheNumberOfAnAbortedOne),
        "is triggered for the second time",
    ),
    TriggersTwoAtOnce: (Machines(coordinator=TriggersTwoAtOnce), "is triggered while .* is pending"),
    SettlesWithoutAnswers: (Machines(coordinator=SettlesWithoutAnswers), "is settled but .* are not visible"),
    CommitsOutOfOrder: (Machines(coordinator=CommitsOutOfOrder), "settlement is out of order"),
    AnnouncesSavepoints: (Machines(coordinator=AnnouncesSavepoints), "holds in-flight records"),
    IgnoresWhoElseRefers: (Machines(registry=IgnoresWhoElseRefers), "were released"),
    ForgetsWhoReads: (Machines(registry=ForgetsWhoReads), "was deleted before its savepoint is written"),
    DropsWhatIsNewer: (Machines(registry=DropsWhatIsNewer), "were dropped while .* is the newest settled"),
    DropsTheNewestSettled: (
        Machines(registry=DropsTheNewestSettled),
        "were dropped while .* is the newest settled",
    ),
    TakesRetryForCommitted: (Machines(ledger=TakesRetryForCommitted), "are not visible"),
    TakesAbortedForCommitted: (Machines(ledger=TakesAbortedForCommitted), "are not visible"),
    NeverBlocks: (Machines(alignment=NeverBlocks), "which will be read again"),
    SnapshotsAtTheFirstBarrier: (Machines(alignment=SnapshotsAtTheFirstBarrier), "has lost"),
    RestartsBeforeAllIsVisible: (
        Machines(failover=RestartsBeforeAllIsVisible),
        "were decided but are removed",
    ),
    NeverGivesUp: (Machines(heartbeats=NeverGivesUp), "is not declared lost"),
    CountsWhenItStoodStill: (Machines(heartbeats=CountsWhenItStoodStill), "was declared lost after"),
    takes_from_the_living: (
        Machines(judge=takes_from_the_living),
        "while the owner runs|an owner is replaced",
    ),
    takes_over_too_soon: (Machines(judge=takes_over_too_soon), "an owner is replaced after"),
    repeats_a_term: (Machines(judge=repeats_a_term), "term 1 follows term 1"),
    DropsWhatItHasOvertaken: (Machines(sink=DropsWhatItHasOvertaken), "has lost"),
    KeepsOnlyWhatCameSince: (Machines(sink=KeepsOnlyWhatCameSince), "has lost"),
    WorksOffNewRecordsFirst: (Machines(sink=WorksOffNewRecordsFirst), "comes after"),
    WorksOffWhatOthersHaveToo: (Machines(sink=WorksOffWhatOthersHaveToo), "visible twice|had their effect"),
    SkipsAnUploadBecauseTheFileIsThere: (Machines(sink=SkipsAnUploadBecauseTheFileIsThere), "has lost"),
    PreparesAfterTheSnapshot: (Machines(sink=PreparesAfterTheSnapshot), "are not visible"),
    ReusesATransactionBeforeItsWorkIsVisible: (
        Machines(sink=ReusesATransactionBeforeItsWorkIsVisible),
        "was decided but is lost",
    ),
    ForgetsWhatWasNotConfirmed: (Machines(sink=ForgetsWhatWasNotConfirmed), "are not visible"),
    fences_what_it_finds_after_the_check: (
        Machines(fencing=fences_what_it_finds_after_the_check),
        "term \\d+ fences .* of term",
    ),
    fences_newer_epochs_too: (Machines(fencing=fences_newer_epochs_too), "term \\d+ fences .* of term"),
    fences_without_a_check: (Machines(fencing=fences_without_a_check), "term \\d+ fences .* of term"),
    WorksOnUnderAnyLease: (Machines(lease=WorksOnUnderAnyLease), "a worker of term \\d+ begins under"),
}
"""Each with the words of the invariant that notices it."""
