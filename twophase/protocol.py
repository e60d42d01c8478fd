"""Two-phase commit among participants that each vote: all commit, or all roll back.

Pure: events in, actions out, no I/O and no clock. The coordinator's driver sends what the actions say, reports what
comes back, and reports `TimedOut` when nothing came back in time: during the vote that is a no, afterwards the decision
is told again to whoever has not acknowledged it. A decision never changes, whatever arrives late or twice.

Checkpoints are this protocol with `ack` for yes and a decline for no; their coordinator and the ledger carry it out for
sinks. This machine is for systems outside of a job that must commit together.

Example:
    >>> transfer = TwoPhaseCommit("transfer 7", ["debit", "credit"])
    >>> transfer.start()
    [Prepare(participant='debit'), Prepare(participant='credit')]
    >>> transfer.on(Voted("debit", yes=True)), transfer.on(Voted("credit", yes=True))
    ([], [Commit(participant='debit'), Commit(participant='credit')])
    >>> transfer.on(Acknowledged("credit")), transfer.on(Acknowledged("debit"))
    ([], [Completed(outcome=<Outcome.COMMITTED: 'committed'>)])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tidegate.errors import ConfigError

__all__ = [
    "Acknowledged",
    "Action",
    "Commit",
    "Completed",
    "Event",
    "Outcome",
    "Prepare",
    "Rollback",
    "TimedOut",
    "TwoPhaseCommit",
    "Voted",
]


class Outcome(Enum):
    """What was decided."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class Voted:
    """A participant has done the work up to the commit, or it cannot."""

    participant: str
    yes: bool


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Whoever has not answered did not do so in time."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A participant has carried out the decision and released what it held."""

    participant: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Have a participant do the work, so that it can still go either way, and vote."""

    participant: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Have a participant commit, and acknowledge it."""

    participant: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """Have a participant undo its work, if it did any, and acknowledge it."""

    participant: str


@dataclass(frozen=True, slots=True)
class Completed:
    """Every participant has carried out the decision. Final."""

    outcome: Outcome


Event: TypeAlias = Voted | TimedOut | Acknowledged
Action: TypeAlias = Prepare | Commit | Rollback | Completed


class TwoPhaseCommit:
    """The coordinator of one transaction.

    Args:
        name: What the transaction is called in errors.
        participants: Who must agree; each has a name of its own.

    Raises:
        ConfigError: there is nobody to agree, or two have one name.
    """

    def __init__(self, name: str, participants: Sequence[str]) -> None:
        if not participants or len(set(participants)) < len(participants):
            raise ConfigError(
                f"transaction {name!r}: participants are {list(participants)}; expected one or more different names"
            )
        self._participants = tuple(participants)
        self._waiting = set(participants)
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What was decided; None while the vote is open."""
        return self._outcome

    def start(self) -> list[Action]:
        """Ask for the votes."""
        return [Prepare(participant) for participant in self._participants]

    def on(self, event: Event) -> list[Action]:
        """What to do now that `event` happened; nothing if it tells nothing new."""
        if isinstance(event, TimedOut):
            return self._decide(Outcome.ROLLED_BACK) if self._outcome is None else self._tell()
        if event.participant not in self._waiting or isinstance(event, Voted) != (self._outcome is None):
            return []
        if isinstance(event, Voted) and not event.yes:
            return self._decide(Outcome.ROLLED_BACK)
        self._waiting.remove(event.participant)
        if self._waiting:
            return []
        return self._decide(Outcome.COMMITTED) if self._outcome is None else [Completed(self._outcome)]

    def _decide(self, outcome: Outcome) -> list[Action]:
        self._outcome = outcome
        self._waiting = set(self._participants)
        return self._tell()

    def _tell(self) -> list[Action]:
        order = Commit if self._outcome is Outcome.COMMITTED else Rollback
        return [order(participant) for participant in self._participants if participant in self._waiting]
