"""A worker whose turns, deliveries and credits are decided by a seed; everything it runs is real.

What a seed decides is the order of things between subtasks. When triggers and settlements come in is the coordinator's
own pace, so a seed makes a failure likely again, not certain.
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

__all__ = ["decide_by"]


def decide_by(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs on the inline executor run in the order of a seed, in small batches, so that there is some.

    As many records may be on their way whatever time the machine takes for them: the seed decides, not the clock.
    """
    for limit in ("_FIRST", "_LARGEST"):
        monkeypatch.setattr(f"tidegate.runtime.task.batch_size.{limit}", 32)
    monkeypatch.setattr(Credit.__init__, "__defaults__", (8 * 32,))
    monkeypatch.setattr(WorkRate, "window", lambda rate, channels: 8 * 32)
    monkeypatch.setattr("tidegate.runtime.embedded.cluster.Worker", partial(_Haphazard, random.Random(seed)))


_Way = tuple[str, ChannelId]
"""One direction of a channel."""


class _Haphazard(Worker):
    """Some subtasks have a turn, in any order; what is on its way arrives later, in the order of its channel."""

    def __init__(self, chance: random.Random, *parts: Any) -> None:
        super().__init__(*parts)
        self._chance = chance
        self._on_the_way: dict[_Way, deque[Callable[[], None]]] = defaultdict(deque)
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
        for way, queue in list(self._on_the_way.items()):
            while queue and self._chance.random() < self._pace[way]:
                queue.popleft()()
        return busy or len(chosen) < len(everyone) or any(self._on_the_way.values())

    def _deliver(self, channel: ChannelId, element: Element) -> None:
        self._on_the_way["there", channel].append(partial(super()._deliver, channel, element))

    def _grant(self, channel: ChannelId, records: int, limit: int) -> None:
        self._on_the_way["back", channel].append(partial(super()._grant, channel, records, limit))
