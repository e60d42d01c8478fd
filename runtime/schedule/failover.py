"""Failover: state machine for a failed region while other regions run. Pure.

A part that failed is stopped at once. It is started again when its delay is over and all that was decided is visible,
so that whatever its sinks still hold can be removed. Meanwhile no checkpoint is begun.

Example:
    >>> from tidegate.runtime.schedule.restart import FixedDelay
    >>> failover = Failover(FixedDelay(attempts=1, delay_ms=100))
    >>> failover.on(PartFailed(1, now_ms=0))
    [Stop(part=1)]
    >>> failover.on(Tick(now_ms=100, quiet=False))
    []
    >>> failover.on(Tick(now_ms=150, quiet=True))
    [Start(part=1)]
    >>> failover.on(PartFailed(0, now_ms=160))
    [GiveUp()]
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.runtime.schedule.restart import RestartStrategy

__all__ = ["Failover", "GiveUp", "PartFailed", "Start", "Stop", "Tick"]


@dataclass(frozen=True, slots=True)
class PartFailed:
    """A region has failed, or did not come back."""

    part: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has advanced; `quiet` is whether no checkpoint is pending and no decided output is uncommitted."""

    now_ms: int
    quiet: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """End what is left of a part."""

    part: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a part from the newest decided checkpoint."""

    part: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No restart is left: the job fails."""


class Failover:
    """Which parts are down, and when they come back."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self._due_ms: dict[int, int] = {}

    @property
    def down(self) -> frozenset[int]:
        """The parts that do not run."""
        return frozenset(self._due_ms)

    def on(self, event: PartFailed | Tick) -> list[Stop | Start | GiveUp]:
        """Take an event, say what to do."""
        match event:
            case PartFailed():
                delay_ms = self._strategy.failed(event.now_ms)
                if delay_ms is None:
                    return [GiveUp()]
                self._due_ms[event.part] = event.now_ms + delay_ms
                return [Stop(event.part)]
            case Tick():
                due = [
                    part for part, due_ms in self._due_ms.items() if due_ms <= event.now_ms and event.quiet
                ]
                for part in due:
                    del self._due_ms[part]
                return [Start(part) for part in due]
