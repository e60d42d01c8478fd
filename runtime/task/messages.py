"""Messages between coordinator and subtasks about input, event time, progress and failures.

Those about checkpoints are of `runtime/checkpoint/protocol.py`.
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
from tidegate.runtime.tracebacks import Carried

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
    """Read these splits, encoded as the source's split type; none, if there are none for the reader so far."""

    splits: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class NoMoreSplits:
    """What was assigned is all there will be."""


@dataclass(frozen=True, slots=True)
class ToReader:
    """What an enumerator tells a reader."""

    event: bytes


@dataclass(frozen=True, slots=True)
class EndInput:
    """Read nothing more; event time is at its end."""


@dataclass(frozen=True, slots=True)
class ReadUntil:
    """Read nothing that is further in event time than this, for the sake of slower sources."""

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
    """Everything a worker runs is open."""

    worker: int


@dataclass(frozen=True, slots=True)
class SplitsWanted:
    """A reader has run dry, having received this many assignments."""

    uid: OperatorUid
    reader: int
    received: int


@dataclass(frozen=True, slots=True)
class ToEnumerator:
    """What a reader tells its enumerator."""

    uid: OperatorUid
    reader: int
    event: bytes


@dataclass(frozen=True, slots=True)
class TimeReached:
    """How far time is in an aligned source; None if it holds nobody back for now, or ever."""

    subtask: Subtask
    time: int | None


@dataclass(frozen=True, slots=True)
class Drained:
    """A source has read everything it will ever read."""

    subtask: Subtask


@dataclass(frozen=True, slots=True)
class Failed:
    """The subtask cannot go on."""

    subtask: Subtask
    error: TidegateError
    cause: Carried | None = None
    """Of an error from another process: its cause, which an error that is sent leaves behind."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one worker has done since it started: records that its sources have read, and what functions measured."""

    worker: int
    read: int
    measured: Measured
    flow: Mapping[Subtask, Flow]
    """How freely records moved of late, by subtask."""


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
