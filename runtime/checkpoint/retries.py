"""Retries of refused commits: when to retry, what to report, when to fail.

Pure: no I/O and no clock. One instance per attempt, used by the executor that carries out commits.

Example:
    >>> from tidegate.ids import CheckpointId
    >>> work = Committable(OperatorUid("orders"), 0, CheckpointId(7), b"", "file a", 3)
    >>> retries, refused = CommitRetries(patience_s=600), ((work, Retry("permission denied")),)
    >>> retries.delay_s([work]), retries.answered(refused, now_s=0), retries.delay_s([work])
    (0.0, {'orders': 'permission denied'}, 0.5)
    >>> retries.answered(refused, now_s=1), retries.delay_s([work])
    ({}, 1.0)
    >>> retries.overdue(now_s=1, ending=True), retries.overdue(now_s=601, ending=True)
    (False, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import CommitFailedError
from tidegate.ids import OperatorUid
from tidegate.twophase.ledger import described
from tidegate.twophase.spi import Answer, Committable, Retry

__all__ = ["CommitRetries", "given_up"]

_FIRST_S: Final = 0.5
_LONGEST_S: Final = 10.0
_QUIET_S: Final = 10.0
"""At most this often a new reason is reported for a sink that cannot commit."""


@dataclass(slots=True)
class _Refused:
    since_s: float
    times: int = 0


@dataclass(slots=True)
class _Told:
    at_s: float
    reasons: set[str] = field(default_factory=set)


class CommitRetries:
    """Follows what committers refused.

    Args:
        patience_s: How long work may be refused once the job is ending.
    """

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._refused: dict[Committable, _Refused] = {}
        self._told: dict[OperatorUid, _Told] = {}
        self._ending_s: float | None = None

    def answered(self, answers: Iterable[tuple[Committable, Answer]], now_s: float) -> dict[OperatorUid, str]:
        """Take answers; the reasons that are to be told now, by sink: when it begins and when they change."""
        news: dict[OperatorUid, str] = {}
        for committable, answer in answers:
            if not isinstance(answer, Retry):
                self._refused.pop(committable, None)
                continue
            self._refused.setdefault(committable, _Refused(now_s)).times += 1
            told = self._told.setdefault(committable.uid, _Told(now_s))
            quiet = bool(told.reasons) and now_s - told.at_s < _QUIET_S
            if answer.reason not in told.reasons and not quiet:
                told.at_s = now_s
                told.reasons.add(answer.reason)
                news[committable.uid] = answer.reason
        in_trouble = {committable.uid for committable in self._refused}
        self._told = {uid: told for uid, told in self._told.items() if uid in in_trouble}
        return news

    @property
    def refused(self) -> frozenset[Committable]:
        """What is to be committed again."""
        return frozenset(self._refused)

    def delay_s(self, work: Iterable[Committable]) -> float:
        """How long to wait before this work is committed: 0 unless it was refused before."""
        times = max((self._refused[each].times for each in work if each in self._refused), default=0)
        return min(_FIRST_S * 2.0 ** (times - 1), _LONGEST_S) if times else 0.0

    def overdue(self, now_s: float, *, ending: bool) -> bool:
        """Whether something has been refused for too long since the job is `ending`; while there is input, never."""
        if not ending:
            self._ending_s = None
            return False
        self._ending_s = now_s if self._ending_s is None else self._ending_s
        since_s = min((refused.since_s for refused in self._refused.values()), default=now_s)
        return now_s - max(since_s, self._ending_s) >= self.patience_s


def given_up(
    left: Iterable[Committable], reasons: Mapping[Committable, str], patience_s: float
) -> CommitFailedError:
    """What ends a job whose output is still refused when everything else is done."""
    return CommitFailedError(
        f"decided output is not visible: its commit was refused for {patience_s:g} s at the end of the "
        f"job: {described(left, reasons)}; nothing is lost; repair the cause and start the job again, which commits it"
    )
