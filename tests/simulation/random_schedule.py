"""Random schedule: a real worker in which a seed determines the order of steps, deliveries and credits.

A seed determines the order of events between subtasks. The coordinator triggers and settles checkpoints at its own pace,
so a repeated seed makes a failure likely, not certain.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tidegate.elements import Element
from tidegate.runtime.embedded.worker import Worker
from tidegate.runtime.task.credit import Credit, WorkRate
from tidegate.runtime.task.exchange import ChannelId

__all__ = ["run_in_order_of"]


def run_in_order_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs on the inline executor run in the order of a seed, in small batches, so that many orders occur.

    The number of in-flight records does not depend on the speed of the machine: the seed decides, not the clock.
    """
    for limit in ("_FIRST", "_LARGEST"):
        monkeypatch.setattr(f"tidegate.runtime.task.batch_size.{limit}", 32)
    monkeypatch.setattr(Credit.__init__, "__defaults__", (8 * 32,))
    monkeypatch.setattr(WorkRate, "window", lambda rate, channels: 8 * 32)
    monkeypatch.setattr(
        "tidegate.runtime.embedded.cluster.Worker", partial(_RandomWorker, random.Random(seed))
    )


_Way = tuple[str, ChannelId]
"""One direction of a channel."""


class _RandomWorker(Worker):
    """Runs some subtasks in random order; elements arrive later, in the order of their channel."""

    def __init__(self, chance: random.Random, *parts: Any) -> None:
        super().__init__(*parts)
        self._chance = chance
        self._in_flight: dict[_Way, deque[Callable[[], None]]] = defaultdict(deque)
        self._pace: dict[_Way, float] = defaultdict(lambda: chance.choice((0.6, 0.6, 0.6, 0.03)))

    def _work(self) -> bool:
        everyone = self._runners
        chosen = [each for each in everyone.items() if self._chance.random() < 0.7]
        self._chance.shuffle(chosen)
        self._runners = dict(chosen)
        try:
            busy = super()._work()
        finally:
            self._runners = everyone
        for way, queue in list(self._in_flight.items()):
            while queue and self._chance.random() < self._pace[way]:
                queue.popleft()()
        return busy or len(chosen) < len(everyone) or any(self._in_flight.values())

    def _deliver(self, channel: ChannelId, element: Element) -> None:
        self._in_flight["there", channel].append(partial(super()._deliver, channel, element))

    def _grant(self, channel: ChannelId, records: int, limit: int) -> None:
        self._in_flight["back", channel].append(partial(super()._grant, channel, records, limit))
