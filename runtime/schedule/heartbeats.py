"""Heartbeats: finds workers that are alive but do not respond. Pure.

A worker that is gone is noticed by its connection. One that hangs keeps it, so it is asked now and then, by a thread
of its own that answers whatever its functions do. Only time in which this machine looked on counts against a worker: if
the process that asks was stopped itself, no answer could arrive.

Example:
    >>> heartbeats = Heartbeats(interval_ms=100, timeout_ms=250)
    >>> heartbeats.watch(0)
    >>> heartbeats.tick(0)
    [Ask(worker=0)]
    >>> heartbeats.answered(0)
    >>> [heartbeats.tick(now_ms) for now_ms in (100, 200, 300)]
    [[Ask(worker=0)], [Ask(worker=0)], [Silent(worker=0, for_ms=300)]]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Ask", "Heartbeats", "Silent"]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a worker whether it lives."""

    worker: int


@dataclass(frozen=True, slots=True)
class Silent:
    """A worker has not answered for too long; it is not watched any more."""

    worker: int
    for_ms: int


class Heartbeats:
    """Pings every `interval_ms`, declares a worker lost after `timeout_ms`; starts at its first answer."""

    def __init__(self, interval_ms: int, timeout_ms: int) -> None:
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._silent_ms: dict[int, int | None] = {}
        self._now_ms: int | None = None
        self._ask_at_ms = 0

    def watch(self, *workers: int) -> None:
        """Workers were started, and load what they need before they can answer."""
        self._silent_ms.update(dict.fromkeys(workers))
        self._ask_at_ms = 0

    def forget(self, workers: Iterable[int]) -> None:
        """Workers were ended."""
        for worker in workers:
            self._silent_ms.pop(worker, None)

    def answered(self, worker: int) -> None:
        """A worker lives."""
        if worker in self._silent_ms:
            self._silent_ms[worker] = 0

    def tick(self, now_ms: int) -> list[Ask | Silent]:
        """Time has advanced."""
        passed_ms = min(now_ms - self._now_ms, self._interval_ms) if self._now_ms is not None else 0
        self._now_ms = now_ms
        gone: list[Silent] = []
        for worker, before_ms in list(self._silent_ms.items()):
            if before_ms is not None:
                self._silent_ms[worker] = for_ms = before_ms + passed_ms
                if for_ms >= self._timeout_ms:
                    gone.append(Silent(worker, for_ms))
        self.forget(silent.worker for silent in gone)
        if now_ms < self._ask_at_ms:
            return [*gone]
        self._ask_at_ms = now_ms + self._interval_ms
        return [*gone, *(Ask(worker) for worker in self._silent_ms)]
