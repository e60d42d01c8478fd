"""Checkpoint statistics, computed from events. Pure.

Example:
    >>> history = CheckpointHistory()
    >>> history.on(JobEvent(1_000, "triggered", "", checkpoint=CheckpointId(7)), now_s=1.0)
    >>> history.on(JobEvent(1_040, "decided", "", CheckpointId(7), size=512, transactions=2), now_s=1.04)
    >>> history.newest_decided.decided_after_ms, history.open_transactions
    (40, 2)
    >>> history.on(JobEvent(1_050, "settled", "", CheckpointId(7)), now_s=1.05)
    >>> history.figures[-1].state, history.open_transactions
    ('settled', 0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tidegate.ids import CheckpointId
from tidegate.runtime.observe.events import JobEvent
from tidegate.runtime.observe.run_snapshot import CheckpointStats
from tidegate.twophase.spi import Committable

__all__ = ["CheckpointHistory", "by_sink"]

_KEPT: Final = 10


class CheckpointHistory:
    """The newest checkpoints of a run."""

    def __init__(self) -> None:
        self.newest_decided: CheckpointStats | None = None
        self.newest_settled: CheckpointId | None = None
        self.settled_at_s: float | None = None
        self._known: dict[CheckpointId, CheckpointStats] = {}
        self._triggered_s: dict[CheckpointId, float] = {}

    @property
    def figures(self) -> tuple[CheckpointStats, ...]:
        """The newest ones, oldest first."""
        return tuple(self._known.values())[-_KEPT:]

    @property
    def open_transactions(self) -> int:
        """Pieces of output that are decided and not settled."""
        return sum(each.transactions for each in self._known.values() if each.state == "decided")

    @property
    def oldest_open(self) -> CheckpointStats | None:
        """The oldest one that is decided and not settled: the one that is being committed."""
        return next((each for each in self._known.values() if each.state == "decided"), None)

    def open_for_s(self, now_s: float) -> float | None:
        """How long that one has been decided."""
        oldest = self.oldest_open
        if oldest is None or oldest.decided_after_ms is None:
            return None
        return now_s - self._triggered_s[oldest.checkpoint] - oldest.decided_after_ms / 1000

    def on(self, event: JobEvent, now_s: float) -> None:
        """Take an event that happened at `now_s` of a clock that never goes back."""
        checkpoint = event.checkpoint
        if checkpoint is None:
            return
        if event.what == "triggered":
            self._known[checkpoint] = CheckpointStats(checkpoint, "pending", event.at_ms)
            self._triggered_s[checkpoint] = now_s
            self._forget()
        elif event.what == "settled":
            self.newest_settled, self.settled_at_s = checkpoint, now_s
            self.settled_until(checkpoint, now_s)
        elif checkpoint in self._known:
            self._known[checkpoint] = self._changed(self._known[checkpoint], event, now_s)

    def settled_until(self, checkpoint: CheckpointId, now_s: float) -> None:
        """Checkpoints settle in order, so what is known of an older one holds for it too."""
        for known, figures in self._known.items():
            if known <= checkpoint and figures.state == "decided":
                after_ms = self._after_ms(known, now_s)
                self._known[known] = replace(
                    figures,
                    state="settled",
                    settled_after_ms=after_ms,
                    transactions=0,
                    sinks=dict.fromkeys(figures.sinks, 0),
                    reason=None,
                )

    def _changed(self, figures: CheckpointStats, event: JobEvent, now_s: float) -> CheckpointStats:
        match event.what:
            case "acked":
                return replace(figures, acked=figures.acked + 1)
            case "decided":
                self.newest_decided = replace(
                    figures,
                    state="decided",
                    decided_after_ms=self._after_ms(figures.checkpoint, now_s),
                    size=event.size,
                    transactions=event.transactions or 0,
                    sinks=event.sinks or {},
                )
                return self.newest_decided
            case "committed" if figures.state == "decided":
                left = event.sinks or {}
                sinks = {sink: left.get(sink, 0) for sink in figures.sinks}
                return replace(figures, transactions=sum(sinks.values()), sinks=sinks)
            case "retrying" if figures.state == "decided":
                return replace(figures, reason=event.text)
            case "aborted":
                return replace(figures, state="aborted", reason=event.text)
        return figures

    def _after_ms(self, checkpoint: CheckpointId, now_s: float) -> int:
        return round((now_s - self._triggered_s[checkpoint]) * 1000)

    def _forget(self) -> None:
        """Keep the newest, and of the others those whose output is still to become visible."""
        old = [each for each in list(self._known.values())[:-_KEPT] if each.state != "decided"]
        for each in old:
            del self._known[each.checkpoint], self._triggered_s[each.checkpoint]


def by_sink(work: Iterable[Committable]) -> dict[str, int]:
    """How many pieces of output there are of each sink."""
    return dict(Counter(str(each.uid) for each in work))
