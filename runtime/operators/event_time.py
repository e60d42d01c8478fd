"""How far event time is, as a checkpoint keeps it: for executors whose subtasks do not outlive it.

What an operator has passed on says where those behind it are. Whoever makes watermarks keeps for each split what its
generator has learnt. Time that is at its end is not kept: who goes on from there begins a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from tidegate.elements import MIN_WATERMARK
from tidegate.errors import RecordError
from tidegate.ids import SplitId
from tidegate.serde import codec_for

__all__ = ["EventTime", "SplitTime", "learnt", "reached", "remind"]

_CODEC: Final = codec_for(None, pickle="forbid")


class SplitTime(msgspec.Struct, frozen=True):
    """How far time is in one split, or in a stream that knows of none."""

    split: SplitId | None
    mark: int
    idle: bool
    active_at: int
    learnt: dict[str, bytes]
    """What its generator has learnt."""


class EventTime(msgspec.Struct, frozen=True):
    """How far time is behind an operator in one subtask."""

    subtask: int
    passed: int
    splits: tuple[SplitTime, ...] = ()


def reached(times: Sequence[EventTime], before: int, index: int, parallelism: int) -> int:
    """Where time is for subtask `index` of an operator that had `before` subtasks: where its own was, or the slowest.

    Example:
        >>> times = [EventTime(0, 70), EventTime(1, 50)]
        >>> reached(times, 2, 0, parallelism=2), reached(times, 2, 0, parallelism=3)
        (70, 50)
    """
    if before == parallelism:
        return next((time.passed for time in times if time.subtask == index), MIN_WATERMARK)
    return min(time.passed for time in times) if times and len(times) == before else MIN_WATERMARK


def learnt(learner: Any, fresh: Any) -> dict[str, bytes]:
    """The values in which an object's attributes differ from those of a fresh one of its kind, encoded.

    What cannot be encoded without pickle is no value but something it works with, such as a clock.

    Example:
        >>> from types import SimpleNamespace as Generator
        >>> generator = Generator(delay=10, newest=None)
        >>> remind(generator, learnt(Generator(delay=5, newest=7, clock=object()), Generator(delay=5, newest=None)))
        >>> generator
        namespace(delay=10, newest=7)
    """
    begun, found = vars(fresh), {}
    for name, value in vars(learner).items():
        if name not in begun or begun[name] != value:
            with suppress(RecordError):
                found[name] = _CODEC.encode(value)
    return found


def remind(learner: Any, found: Mapping[str, bytes]) -> None:
    """Give a fresh object what another one has learnt."""
    for name, value in found.items():
        setattr(learner, name, _CODEC.decode(value))
