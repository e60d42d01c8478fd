"""Slot pool: slots requested by failover regions and offered by task managers. Pure.

A request names the slots it needs. Task managers that are not there have to be started; each registers when it can take
work, and offers all of its slots with that. A part runs as soon as it has all of its slots, whether others have theirs
or not, and is told what is missing if that takes too long.

Example:
    >>> pool = SlotPool(timeout_ms=1_000)
    >>> pool.on(Wanted(0, (Slot(0, 0), Slot(1, 0)), now_ms=0))
    [Start(part=0, task_managers=(0, 1))]
    >>> pool.on(Registered(1)), pool.on(Tick(1_000))
    ([], [Missing(part=0, needed=2, there=1)])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.runtime.schedule.slots import Slot

__all__ = ["Fulfilled", "Missing", "Registered", "SlotPool", "Start", "Tick", "Wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A region needs these slots; it has lost its previous ones."""

    part: int
    slots: tuple[Slot, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A task manager is there and offers its slots."""

    task_manager: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has advanced."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Start:
    """Task managers that a part needs are not there."""

    part: int
    task_managers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fulfilled:
    """A part has all of its slots."""

    part: int


@dataclass(frozen=True, slots=True)
class Missing:
    """A part did not get its slots in time; it is forgotten."""

    part: int
    needed: int
    there: int


@dataclass(slots=True)
class _Pending:
    slots: tuple[Slot, ...]
    since_ms: int


class SlotPool:
    """Answers who can be deployed, who has to be started and who has waited too long."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._offered: set[int] = set()
        self._pending: dict[int, _Pending] = {}

    def on(self, event: Wanted | Registered | Tick) -> list[Start | Fulfilled | Missing]:
        """Take an event, say what to do."""
        match event:
            case Wanted():
                self._offered -= (managers := _task_managers(event.slots))
                self._pending[event.part] = _Pending(event.slots, event.now_ms)
                return [Start(event.part, tuple(sorted(managers)))]
            case Registered():
                self._offered.add(event.task_manager)
                return self._fulfilled()
            case Tick():
                return self._late(event.now_ms)

    def _fulfilled(self) -> list[Start | Fulfilled | Missing]:
        ready = [p for p, want in self._pending.items() if _task_managers(want.slots) <= self._offered]
        for part in ready:
            del self._pending[part]
        return [Fulfilled(part) for part in ready]

    def _late(self, now_ms: int) -> list[Start | Fulfilled | Missing]:
        late = [part for part, want in self._pending.items() if now_ms - want.since_ms >= self._timeout_ms]
        actions: list[Start | Fulfilled | Missing] = []
        for part in late:
            slots = set(self._pending.pop(part).slots)
            there = sum(slot.task_manager in self._offered for slot in slots)
            actions.append(Missing(part, len(slots), there))
        return actions


def _task_managers(slots: Iterable[Slot]) -> set[int]:
    return {slot.task_manager for slot in slots}
