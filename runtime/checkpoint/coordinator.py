"""Checkpoint coordinator: state machine from trigger to settled, the same on every executor.

Pure: events in, actions out, no I/O, no clock, no threads. Its driver performs the actions and reports back.
Only one checkpoint is on the way to its decision at a time; earlier ones may still be settling.

Example:
    >>> coordinator = CheckpointCoordinator(Plan(("a[0]",), ("a[0]",), interval_ms=1000), next_id=1)
    >>> coordinator.on(Tick(0))
    []
    >>> coordinator.on(Tick(1000))
    [Trigger(checkpoint=1, confirmed=None)]
    >>> coordinator.on(Ack("a[0]", 1, ()))
    [WriteMetadata(checkpoint=1, reports=(), unsettled=(Unsettled(checkpoint=1, committables=()),))]
    >>> coordinator.on(MetadataDurable(1, frozenset()))
    [SwapLatest(checkpoint=1)]
    >>> coordinator.on(Swapped(1))
    [Settle(checkpoint=1)]
    >>> coordinator.on(SettledDurable(1))
    [Settled(checkpoint=1), Release(checkpoints=(), files=frozenset())]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegate.backends.spi import StoredChunk
from tidegate.errors import FencedError, StateFormatError, TidegateError, UnavailableError
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.checkpoint.manifest import Unsettled, stored
from tidegate.runtime.checkpoint.protocol import (
    Abort,
    Ack,
    Action,
    Announce,
    Decline,
    EndJob,
    Event,
    FailJob,
    Finish,
    How,
    MetadataDurable,
    MetadataFailed,
    Pause,
    Plan,
    Resume,
    SavepointFailed,
    SavepointOver,
    SavepointWanted,
    Settled,
    SettledDurable,
    SwapLatest,
    SwapLost,
    Swapped,
    Tick,
    Trigger,
    WriteMetadata,
    WriteSavepoint,
)
from tidegate.runtime.checkpoint.retention import FileRegistry
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.twophase import ledger
from tidegate.twophase.ledger import Ledger
from tidegate.twophase.spi import Committable

__all__ = ["CheckpointCoordinator"]

_LAST_TOLERATED: Final = 2
_LAST_AGAIN_MS: Final = 10_000


@dataclass(slots=True)
class _Pending:
    checkpoint: CheckpointId
    started_ms: int
    last: How | None
    savepoints: tuple[str, ...]
    missing: set[Subtask]
    reports: list[OperatorReport] = field(default_factory=list)
    deciding: bool = False
    announced: bool = False
    files: frozenset[str] = frozenset()
    decide_by_ms: float = math.inf
    """After this, work that was prepared for it could expire before its commit."""


class CheckpointCoordinator:
    """Decides what happens next to the checkpoints of one job."""

    def __init__(
        self,
        plan: Plan,
        next_id: CheckpointId,
        *,
        confirmed: CheckpointId | None = None,
        registry: FileRegistry | None = None,
    ) -> None:
        self._plan = plan
        self.next_id = next_id
        """The number of the next checkpoint, not used by an earlier attempt of this run."""
        self._confirmed = confirmed
        self._registry = registry or FileRegistry(plan.retained)
        self._ledger = Ledger(confirmed or ledger.NOTHING_SETTLED)
        self._pending: _Pending | None = None
        self._last: How | None = None
        self._last_id: CheckpointId | None = None
        self._wanted: tuple[str, ...] = ()
        self._savepoints: dict[str, CheckpointId] = {}
        self._decided_ms: dict[CheckpointId, int] = {}
        """Decision times of checkpoints that become savepoints and are not settled yet."""
        self._due_ms: int | None = None
        self._now_ms = 0
        self._just_ended = False
        """Whether a checkpoint has ended since the last time event."""
        self._given_up = 0
        """Consecutive failed checkpoints."""
        self._paused = False

    @property
    def unsettled(self) -> dict[CheckpointId, tuple[Committable, ...]]:
        """Decided work that is not known to be visible, the oldest first, which is being committed."""
        return self._ledger.unsettled

    def left(self, checkpoint: CheckpointId) -> list[Committable]:
        """Decided work that is not known to be visible, of a checkpoint and those before."""
        return self._ledger.left(checkpoint)

    @property
    def refused(self) -> Mapping[Committable, str]:
        """Decided work that is to be committed again, each with the newest reason why."""
        return self._ledger.refused

    @property
    def quiet(self) -> bool:
        """Whether no checkpoint is on its way and all that is decided is visible."""
        return self._pending is None and not self._ledger.unsettled

    @property
    def hurried(self) -> bool:
        """Whether the next checkpoint is to become a savepoint."""
        return bool(self._wanted)

    @property
    def confirmed(self) -> CheckpointId | None:
        """The newest decided checkpoint."""
        return self._confirmed

    def on(self, event: Event) -> list[Action]:
        """Take an event, say what to do."""
        match event:
            case Tick():
                return self._tick(event.now_ms)
            case Finish():
                return self._finish(event.how)
            case Pause():
                return self._pause(event.reason)
            case Resume():
                self._paused = False
                return []
            case SavepointWanted():
                return self._savepoint(event.place)
            case Ack():
                return self._ack(event)
            case Decline() | MetadataFailed():
                return self._give_up(event.checkpoint, event.error)
            case MetadataDurable():
                return self._metadata(event)
            case Swapped():
                return self._decided(event.checkpoint)
            case SwapLost():
                lost = f"checkpoint {event.checkpoint} cannot be decided: {event.owner}; this run stops"
                return [FailJob(FencedError(lost))]
            case ledger.Answered():
                return self._settling(self._ledger.on(event))
            case SettledDurable():
                return self._settled(event.checkpoint)
            case SavepointOver():
                return self._savepoint_over(event.place)

    def _tick(self, now_ms: int) -> list[Action]:
        self._now_ms = now_ms
        return self._give_up_savepoints() + self._due()

    def _due(self) -> list[Action]:
        now_ms = self._now_ms
        if self._due_ms is None:
            first_ms, interval_ms = self._plan.first_ms, self._plan.interval_ms
            self._due_ms = now_ms + (interval_ms if first_ms is None else min(first_ms, interval_ms))
        if self._just_ended and self._last is None:
            self._due_ms = max(self._due_ms, now_ms + self._plan.pause_ms)
        self._just_ended = False
        pending = self._pending
        if pending is not None:
            late = now_ms - pending.started_ms >= self._plan.timeout_ms
            if not late or pending.deciding:
                return self._announce(pending)
            waiting = ", ".join(sorted(map(str, pending.missing)))
            late_by = f"not acknowledged within {self._plan.timeout_ms} ms by {waiting}"
            return self._give_up(pending.checkpoint, UnavailableError(late_by))
        if self._paused:
            return []
        hurry = self._wanted and self._last is None
        if (now_ms < self._due_ms and not hurry) or self._last_id is not None:
            return []
        return self._trigger(self._last)

    def _trigger(self, last: How | None) -> list[Action]:
        checkpoint = self.next_id
        self.next_id = CheckpointId(checkpoint + 1)
        self._due_ms = self._now_ms + self._plan.interval_ms
        self._pending = _Pending(checkpoint, self._now_ms, last, self._wanted, set(self._plan.subtasks))
        self._wanted = ()
        if last is not None:
            self._last_id = checkpoint
        return [Trigger(checkpoint, self._confirmed)]

    def _announce(self, pending: _Pending) -> list[Action]:
        """Announce overtaking once its timeout has passed and a subtask has taken part: before that the number may be unused.

        A savepoint must be restorable by any program and the last checkpoint contains no in-flight records, so both are aligned.
        """
        aligned_ms = self._plan.aligned_ms
        waits = pending.announced or pending.deciding or pending.savepoints or pending.last is not None
        if aligned_ms is None or waits or self._now_ms - pending.started_ms < aligned_ms:
            return []
        if len(pending.missing) == len(self._plan.subtasks):
            return []
        pending.announced = True
        return [Announce(pending.checkpoint, self._confirmed)]

    def _finish(self, how: How) -> list[Action]:
        if self._last is not None:
            return []
        self._last = how
        self._given_up = 0
        return self._trigger(how) if self._pending is None else []

    def _pause(self, reason: str) -> list[Action]:
        """Forget the pending checkpoint unless every part of it is durable; its savepoints come with the next one."""
        self._paused = True
        pending = self._pending
        if pending is None or pending.deciding:
            return []
        self._pending = None
        self._registry.abandoned(pending.checkpoint, _files(pending.reports))
        self._wanted = pending.savepoints + self._wanted
        return [Abort(pending.checkpoint, reason)]

    def _savepoint(self, place: str) -> list[Action]:
        """Have the next checkpoint taken at once, and written to `place` as soon as it is settled."""
        if self._last is not None:
            return [SavepointFailed(place, "the job is already ending")]
        self._wanted += (place,)
        return []

    def _ack(self, ack: Ack) -> list[Action]:
        pending = self._pending
        if pending is None or ack.checkpoint != pending.checkpoint or ack.subtask not in pending.missing:
            self._registry.abandoned(ack.checkpoint, _files(ack.reports))
            return []
        self._registry.abandoned(ack.checkpoint, _dropped(ack.reports))
        pending.missing.discard(ack.subtask)
        pending.reports.extend(ack.reports)
        pending.decide_by_ms = min(pending.decide_by_ms, self._now_ms + ack.spare_ms)
        if pending.missing:
            return self._announce(pending)
        pending.deciding = True
        unsettled = [Unsettled(c, work) for c, work in self._ledger.unsettled.items()]
        unsettled.append(Unsettled(pending.checkpoint, _work(pending.reports)))
        return [WriteMetadata(pending.checkpoint, tuple(pending.reports), tuple(unsettled))]

    def _metadata(self, event: MetadataDurable) -> list[Action]:
        pending = self._pending
        if pending is None or pending.checkpoint != event.checkpoint:
            return []
        pending.files = event.files
        if self._now_ms > pending.decide_by_ms:
            late = "it took so long that prepared work could expire before its commit"
            return self._give_up(event.checkpoint, UnavailableError(late))
        return [SwapLatest(event.checkpoint)]

    def _decided(self, checkpoint: CheckpointId) -> list[Action]:
        assert self._pending is not None
        pending, self._pending = self._pending, None
        self._just_ended = True
        self._confirmed = checkpoint
        self._given_up = 0
        self._registry.decided(checkpoint, pending.files)
        if pending.savepoints:
            self._registry.pin(checkpoint)
            self._decided_ms[checkpoint] = self._now_ms
            self._savepoints.update(dict.fromkeys(pending.savepoints, checkpoint))
        actions = self._settling(self._ledger.on(ledger.Decided(checkpoint, _work(pending.reports))))
        if self._last is not None and pending.last is None:
            actions += self._trigger(self._last)
        return actions

    def _settling(self, answers: Iterable[ledger.Action]) -> list[Action]:
        actions: list[Action] = []
        for answer in answers:
            match answer:
                case ledger.Commit() | ledger.Settle():
                    actions.append(answer)
                case ledger.Replay():
                    lost = UnavailableError(
                        f"all output of checkpoint {answer.checkpoint} was aborted; restoring the newest settled checkpoint"
                    )
                    actions.append(FailJob(lost))
                case ledger.Fail():
                    actions.append(FailJob(answer.error))
        return actions

    def _give_up_savepoints(self) -> list[Action]:
        """Those whose checkpoints do not settle in time; the job continues to retry their commits."""
        actions: list[Action] = []
        for checkpoint, decided_ms in list(self._decided_ms.items()):
            if self._now_ms - decided_ms >= self._plan.timeout_ms:
                del self._decided_ms[checkpoint]
                self._registry.unpin(checkpoint)
                left = (
                    ledger.described(self._ledger.left(checkpoint), self._ledger.refused)
                    or "only its settled mark"
                )
                reason = (
                    f"checkpoint {checkpoint}: the output of earlier checkpoints is not visible after {self._plan.timeout_ms} ms; "
                    f"open: {left}"
                )
                for place in [place for place, at in self._savepoints.items() if at == checkpoint]:
                    del self._savepoints[place]
                    actions.append(SavepointFailed(place, reason))
        return actions

    def _settled(self, checkpoint: CheckpointId) -> list[Action]:
        self._decided_ms.pop(checkpoint, None)
        actions: list[Action] = [Settled(checkpoint), self._registry.settled(checkpoint)]
        actions += [WriteSavepoint(at, place) for place, at in self._savepoints.items() if at == checkpoint]
        return actions + self._end(checkpoint)

    def _savepoint_over(self, place: str) -> list[Action]:
        checkpoint = self._savepoints.pop(place)
        if checkpoint in self._savepoints.values():
            return []
        self._registry.unpin(checkpoint)
        return self._end(checkpoint)

    def _end(self, checkpoint: CheckpointId) -> list[Action]:
        """The end, if this settled checkpoint is the last one and every savepoint of it is over."""
        if checkpoint != self._last_id or self._last is None or checkpoint in self._savepoints.values():
            return []
        return [EndJob(self._last, checkpoint)]

    def _give_up(self, checkpoint: CheckpointId, error: TidegateError) -> list[Action]:
        pending = self._pending
        if pending is None or pending.checkpoint != checkpoint:
            return []
        self._pending = None
        self._just_ended = True
        self._registry.abandoned(checkpoint, _files(pending.reports) | pending.files)
        self._given_up += 1
        tolerated, forever = self._plan.tolerated, isinstance(error, StateFormatError)
        if pending.last is not None:
            self._last_id = None
            self._due_ms = min(self._due_ms or 0, self._now_ms + _LAST_AGAIN_MS)
            self._wanted, pending.savepoints = pending.savepoints + self._wanted, ()
            tolerated = 0 if forever else _LAST_TOLERATED if tolerated is None else tolerated
        actions: list[Action] = [Abort(checkpoint, str(error))]
        actions += [
            SavepointFailed(place, f"checkpoint {checkpoint}: {error}") for place in pending.savepoints
        ]
        if tolerated is not None and self._given_up > tolerated:
            actions.append(FailJob(error if forever else self._nothing_decided(checkpoint, error)))
        return actions

    def _nothing_decided(self, checkpoint: CheckpointId, error: TidegateError) -> UnavailableError:
        return UnavailableError(
            f"{self._given_up} checkpoints in a row failed; the last one, checkpoint {checkpoint}: {error}"
        )


def _work(reports: Iterable[OperatorReport]) -> tuple[Committable, ...]:
    return tuple(committable for report in reports for committable in report.committables)


def _dropped(reports: Sequence[OperatorReport]) -> Iterator[str]:
    return (name for report in reports for name in report.dropped)


def _files(reports: Sequence[OperatorReport]) -> frozenset[str]:
    keyed = stored(report.keyed for report in reports if report.keyed is not None)
    lists = (name for report in reports for held in report.lists for name in held.files)
    in_flight = (each.in_flight.name for each in reports if isinstance(each.in_flight, StoredChunk))
    return frozenset((*keyed, *lists, *in_flight, *_dropped(reports)))
