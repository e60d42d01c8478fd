"""Messages between the coordinator and subtasks about input, event time, progress and failures.

Messages about checkpoints are in `runtime/checkpoint/protocol.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.ids import OperatorUid, Subtask
from tidegate.runtime.checkpoint.protocol import (
    Abort,
    Ack,
    Announce,
    Answered,
    Commit,
    Decline,
    Settled,
    Trigger,
)
from tidegate.runtime.operators.measures import Measured
from tidegate.runtime.task.flow import Flow
from tidegate.runtime.tracebacks import PackedError

__all__ = [
    "AssignSplits",
    "Drained",
    "EndInput",
    "Failed",
    "FromSubtask",
    "NoMoreSplits",
    "Opened",
    "Progress",
    "ReadUntil",
    "SplitsWanted",
    "TimeReached",
    "ToEnumerator",
    "ToReader",
    "ToSubtask",
]


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """Read these splits, encoded as the source's split type; empty if there are none for the reader yet."""

    splits: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """No more splits will be assigned."""


@dataclass(frozen=True, slots=True)
class ToReader:
    """A source event from an enumerator to a reader."""

    event: bytes


@dataclass(frozen=True, slots=True)
class EndInput:
    """Stop reading; event time is at its end."""


@dataclass(frozen=True, slots=True)
class ReadUntil:
    """Pause reading beyond this event time, because other aligned sources are slower."""

    limit: int


ToSubtask = (
    AssignSplits
    | NoMoreSplits
    | ToReader
    | EndInput
    | Trigger
    | Announce
    | Commit
    | Settled
    | Abort
    | ReadUntil
)


@dataclass(frozen=True, slots=True)
class Opened:
    """All subtasks of a worker are open."""

    worker: int


@dataclass(frozen=True, slots=True)
class SplitsWanted:
    """A reader needs splits; it has received this many assignments."""

    uid: OperatorUid
    reader: int
    received: int


@dataclass(frozen=True, slots=True)
class ToEnumerator:
    """A source event from a reader to its enumerator."""

    uid: OperatorUid
    reader: int
    event: bytes


@dataclass(frozen=True, slots=True)
class TimeReached:
    """The watermark of an aligned source; None if it is idle or at its end and holds no other source back."""

    subtask: Subtask
    time: int | None


@dataclass(frozen=True, slots=True)
class Drained:
    """A source has finished reading."""

    subtask: Subtask


@dataclass(frozen=True, slots=True)
class Failed:
    """The subtask has failed."""

    subtask: Subtask
    error: TidegateError
    cause: PackedError | None = None
    """The cause of an error from another process, because pickling drops it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters of one worker since it started: records read by its sources, and metrics of functions."""

    worker: int
    read: int
    measured: Measured
    flow: Mapping[Subtask, Flow]
    """Recent flow metrics, by subtask."""


FromSubtask = (
    Opened
    | SplitsWanted
    | ToEnumerator
    | TimeReached
    | Ack
    | Decline
    | Answered
    | Drained
    | Failed
    | Progress
)
