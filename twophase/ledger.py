"""Settlement state machine: which decided work still has to be committed, and what commit answers mean.

Pure: events in, actions out, no I/O and no clock. Checkpoints are committed strictly in their order; n is *settled*
when every committable of n is visible. Answers may come in any order, in pieces and more than once. The ledger is
restored by giving it the `Decided` events of everything that is not settled.

Example:
    >>> ledger = Ledger()
    >>> ledger.on(Decided(CheckpointId(1), ()))
    [Settle(checkpoint=1)]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from tidegate.errors import CommitFailedError, CommitUnknownError, InternalError, TidegateError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Retry

__all__ = [
    "Action",
    "Answered",
    "Commit",
    "Decided",
    "Event",
    "Fail",
    "Ledger",
    "Replay",
    "Settle",
    "described",
]


@dataclass(frozen=True, slots=True)
class Decided:
    """A checkpoint is decided; this is the work it promised."""

    checkpoint: CheckpointId
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """Committers answered for some or all of a checkpoint's work."""

    checkpoint: CheckpointId
    answers: tuple[tuple[Committable, Answer], ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Have this work committed and report the answers; repeated for what answered `Retry`."""

    checkpoint: CheckpointId
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """Everything up to this checkpoint is visible; write that down."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Replay:
    """Nothing of this checkpoint is visible nor ever will be; go back to the newest settled one. Final."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Fail:
    """Stop for good; a person must choose. Final."""

    error: TidegateError


Event: TypeAlias = Decided | Answered
Action: TypeAlias = Commit | Settle | Replay | Fail

NOTHING_SETTLED = CheckpointId(0)
"""Checkpoints count from 1."""

_BEGINNING = "0, the beginning"
_NO_REASONS: Final[Mapping[Committable, str]] = MappingProxyType({})
_VISIBLE = (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED)


@dataclass(slots=True)
class _Open:
    committables: tuple[Committable, ...]
    outcome: dict[Committable, CommitAnswer] = field(default_factory=dict)

    def having(self, *answers: CommitAnswer) -> list[Committable]:
        return [work for work in self.committables if self.outcome.get(work) in answers]


class Ledger:
    """Follows decided checkpoints until their work is visible.

    Args:
        settled: The newest checkpoint known to be settled, 0 if there is none.
        accepted: A checkpoint of which a person has said that a part of its work may be lost.
    """

    def __init__(self, settled: CheckpointId = NOTHING_SETTLED, accepted: CheckpointId | None = None) -> None:
        self._settled = settled
        self._accepted = accepted
        self._open: dict[CheckpointId, _Open] = {}
        self._refused: dict[Committable, str] = {}
        self._stopped = False

    @property
    def unsettled(self) -> dict[CheckpointId, tuple[Committable, ...]]:
        """Decided work that is not known to be visible, oldest checkpoint first."""
        return {checkpoint: work.committables for checkpoint, work in self._open.items()}

    @property
    def settled(self) -> CheckpointId:
        """The newest settled checkpoint, 0 if there is none."""
        return self._settled

    @property
    def refused(self) -> Mapping[Committable, str]:
        """Work that is to be committed again, each with the newest reason why."""
        return MappingProxyType(self._refused)

    def left(self, checkpoint: CheckpointId) -> list[Committable]:
        """What has to become visible before a checkpoint is settled, of it and of those before."""
        visible = {work for each in self._open.values() for work in each.having(*_VISIBLE)}
        decided = [
            work for number, each in self._open.items() if number <= checkpoint for work in each.committables
        ]
        return [work for work in decided if work not in visible]

    def on(self, event: Event) -> list[Action]:
        """What to do now that `event` happened; nothing any more after `Replay` or `Fail`."""
        if self._stopped:
            return []
        actions = self._decided(event) if isinstance(event, Decided) else self._answered(event)
        self._stopped = any(isinstance(action, Replay | Fail) for action in actions)
        return actions

    def _decided(self, event: Decided) -> list[Action]:
        known = self._open.get(event.checkpoint)
        if event.checkpoint <= self._settled or (known and known.committables == event.committables):
            return []
        newest = max(self._open, default=self._settled)
        if event.checkpoint <= newest:
            return _broken(f"checkpoint {event.checkpoint} was decided after {newest} or with other work")
        self._open[event.checkpoint] = _Open(event.committables)
        return self._go_on() if len(self._open) == 1 else []

    def _answered(self, event: Answered) -> list[Action]:
        if event.checkpoint <= self._settled:
            return self._late(event)
        head = next(iter(self._open), None)
        if event.checkpoint != head:
            return _broken(f"answers for checkpoint {event.checkpoint}, but {head} is being committed")
        work = self._open[event.checkpoint]
        again, held = [], set(work.committables)
        for committable, answer in event.answers:
            if committable not in held:
                return _broken(f"answer for {committable.describe!r}, which checkpoint {head} does not hold")
            if isinstance(answer, Retry):
                again.append(committable)
                self._refused[committable] = answer.reason
                continue
            self._refused.pop(committable, None)
            if not _note(work, committable, answer):
                return _contradiction(committable)
        return self._conclude(event.checkpoint, work, again)

    def _late(self, event: Answered) -> list[Action]:
        for committable, answer in event.answers:
            if answer is CommitAnswer.ABORTED:
                return _contradiction(committable)
        return []

    def _conclude(self, checkpoint: CheckpointId, work: _Open, again: list[Committable]) -> list[Action]:
        if len(work.outcome) < len(set(work.committables)):
            open_again = tuple(committable for committable in again if committable not in work.outcome)
            return [Commit(checkpoint, open_again)] if open_again else []
        if checkpoint == self._accepted and work.having(*_VISIBLE, CommitAnswer.UNKNOWN):
            return self._settle(checkpoint)
        if work.having(CommitAnswer.UNKNOWN):
            return [Fail(_unknown(checkpoint, work, self._settled))]
        if not work.having(CommitAnswer.ABORTED):
            return self._settle(checkpoint)
        if not work.having(*_VISIBLE):
            return [Replay(checkpoint)]
        return [Fail(_partly(checkpoint, work, self._settled))]

    def _settle(self, checkpoint: CheckpointId) -> list[Action]:
        self._settled = checkpoint
        for committable in self._open.pop(checkpoint).committables:
            self._refused.pop(committable, None)
        return [Settle(checkpoint), *self._go_on()]

    def _go_on(self) -> list[Action]:
        for checkpoint, work in self._open.items():
            if work.committables:
                return [Commit(checkpoint, work.committables)]
            return self._settle(checkpoint)
        return []


def described(committables: Iterable[Committable], reasons: Mapping[Committable, str] = _NO_REASONS) -> str:
    """Committables as text for messages, by sink, with the reason of a refusal."""
    by_sink: defaultdict[str, list[str]] = defaultdict(list)
    for committable in committables:
        why = f"; {reasons[committable]}" if committable in reasons else ""
        by_sink[committable.uid].append(f"{committable.describe} ({committable.records} records{why})")
    return ", ".join(f"sink {uid!r} {' and '.join(parts)}" for uid, parts in by_sink.items())


def _note(work: _Open, committable: Committable, answer: CommitAnswer) -> bool:
    """Remember an answer; False if it contradicts an earlier one. Knowing beats not knowing, in any order."""
    before = work.outcome.get(committable)
    if before is None or before is CommitAnswer.UNKNOWN:
        work.outcome[committable] = answer
        return True
    return answer is CommitAnswer.UNKNOWN or (before in _VISIBLE) == (answer in _VISIBLE)


def _broken(what: str) -> list[Action]:
    return [
        Fail(InternalError(f"settlement is out of order: {what}; no further commits; please report this"))
    ]


def _contradiction(committable: Committable) -> list[Action]:
    return _broken(f"{_name(committable)} was answered both committed and aborted")


def _partly(checkpoint: CheckpointId, work: _Open, settled: CheckpointId) -> CommitFailedError:
    return CommitFailedError(
        f"checkpoint {checkpoint} is decided but only part of its output is visible; committed: "
        f"{described(work.having(*_VISIBLE))}; aborted and lost: {described(work.having(CommitAnswer.ABORTED))}; "
        f"to continue without the aborted records, start with --accept-loss {checkpoint}; to write all output "
        f"since again, including the committed records, start with --replay-from {settled or _BEGINNING}"
    )


def _unknown(checkpoint: CheckpointId, work: _Open, settled: CheckpointId) -> CommitUnknownError:
    rest = [
        f"{word}: {described(found)}"
        for word, found in (
            ("committed", work.having(*_VISIBLE)),
            ("aborted", work.having(CommitAnswer.ABORTED)),
        )
        if found
    ]
    return CommitUnknownError(
        "; ".join(
            [
                f"checkpoint {checkpoint} is decided but it is unknown whether all of its output is visible",
                f"unknown: {described(work.having(CommitAnswer.UNKNOWN))}",
                *rest,
                "check the external system; if the output is visible, or may be missing, start with "
                f"--accept-loss {checkpoint}; to write all output since again, start with --replay-from "
                f"{settled or _BEGINNING}",
            ]
        )
    )


def _name(committable: Committable) -> str:
    return f"sink {committable.uid!r} {committable.describe}"
