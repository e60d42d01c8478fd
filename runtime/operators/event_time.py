"""Event time in checkpoints: watermarks and the state of generators, for executors whose subtasks live for one epoch.

The watermark that an operator has emitted is the watermark of the operators after it. Operators that create watermarks
keep the state of the generator of each split. The last watermark is not kept: a restore from there starts without one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tidegate.elements import MIN_WATERMARK
from tidegate.errors import ConfigError, RecordError
from tidegate.ids import SplitId
from tidegate.untyped import PickledValueWarning, SelfDescribing

__all__ = ["EventTime", "Learner", "SplitTime", "reached", "unfinished"]

_PLAIN: Final = SelfDescribing(pickle="forbid")
_ANYTHING: Final = SelfDescribing(pickle="quiet")
_MISSING: Final = object()


class SplitTime(msgspec.Struct, frozen=True):
    """Event time of one split, or of a stream without splits."""

    split: SplitId | None
    mark: int
    idle: bool
    active_at: int
    learnt: dict[str, bytes]
    """The state of its generator."""


class EventTime(msgspec.Struct, frozen=True):
    """Event time of one operator in one subtask."""

    subtask: int
    passed: int
    splits: tuple[SplitTime, ...] = ()
    arrived: int | msgspec.UnsetType = msgspec.UNSET
    """The watermark before the operator, if the operator has not fired all timers due by it; not stored elsewhere."""


def unfinished(times: Sequence[EventTime], before: int, index: int, parallelism: int) -> int | None:
    """The watermark to repeat to subtask `index`; None if all timers due by it had fired.

    Every subtask gets one, so that the next checkpoint has the watermark of each.

    Example:
        >>> times = [EventTime(0, 70), EventTime(1, 50, arrived=75)]
        >>> [unfinished(times, 2, index, parallelism=2) for index in range(2)], unfinished(times, 2, 0, parallelism=3)
        ([70, 75], 70)
    """
    if all(time.arrived is msgspec.UNSET for time in times):
        return None
    arrived = [
        EventTime(time.subtask, time.passed if time.arrived is msgspec.UNSET else time.arrived)
        for time in times
    ]
    found = reached(arrived, before, index, parallelism)
    return found if found > MIN_WATERMARK else None


def reached(times: Sequence[EventTime], before: int, index: int, parallelism: int) -> int:
    """The watermark of subtask `index` of an operator that had `before` subtasks: its own if the parallelism is the same,
    otherwise the smallest of all.

    Example:
        >>> times = [EventTime(0, 70), EventTime(1, 50)]
        >>> reached(times, 2, 0, parallelism=2), reached(times, 2, 0, parallelism=3)
        (70, 50)
    """
    if before == parallelism:
        return next((time.passed for time in times if time.subtask == index), MIN_WATERMARK)
    return min(time.passed for time in times) if times and len(times) == before else MIN_WATERMARK


class Learner:
    """Keeps the attributes of an object, such as a watermark generator; created after the object was opened.

    Attributes it had then that cannot be encoded, such as a connection, are not kept: the restored object creates its own.

    Args:
        learner: The object.
        carried: Whether an attribute that cannot be encoded is an error: where the object lives for one epoch.

    Example:
        >>> from types import SimpleNamespace as Generator
        >>> known = Learner(Generator(delay=10, newest=None, lines=open))
        >>> known.learner.newest = 7
        >>> fresh = Generator(delay=10, newest=None, lines=open)
        >>> Learner(fresh).remind(known.learnt())
        >>> fresh.newest
        7
    """

    def __init__(self, learner: Any, *, carried: bool = False) -> None:
        self.learner = learner
        self._carried = carried
        self._begun = {name: (value, _encoded(value)) for name, value in vars(learner).items()}

    def learnt(self) -> dict[str, bytes]:
        """The changed attributes, encoded; warns for each that needs pickle.

        Raises:
            ConfigError: one has changed and cannot be encoded.
        """
        found = {}
        for name, value in vars(self.learner).items():
            before, encoded_before = self._begun.get(name, (_MISSING, None))
            data = _encoded(value)
            if data is not None and data != encoded_before:
                found[name] = data
                self._warn(name, value)
            elif data is None and value is not before and self._carried:
                raise ConfigError(
                    f"watermark generator {type(self.learner).__name__}: attribute {name!r} has become a "
                    f"{type(value).__qualname__}, which cannot be pickled and would be lost at the end of the epoch; expected "
                    "plain values, or classes that can be pickled; create connections and the like in open()"
                )
        return found

    def remind(self, found: Mapping[str, bytes]) -> None:
        """Restore the attributes of another object."""
        for name, value in found.items():
            setattr(self.learner, name, _ANYTHING.decode(value))

    def _warn(self, name: str, value: Any) -> None:
        try:
            _PLAIN.encode(value)
        except RecordError:
            warnings.warn(
                f"watermark generator {type(self.learner).__name__}: attribute {name!r} holds a "
                f"{type(value).__qualname__} and is persisted by pickle; use register_class",
                PickledValueWarning,
                stacklevel=3,
            )


def _encoded(value: Any) -> bytes | None:
    try:
        return _ANYTHING.encode(value)
    except RecordError:
        return None
