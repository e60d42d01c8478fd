"""What coordinator and subtasks say to each other, on every executor that keeps subtasks running."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.operators.measures import Measured
from tidegate.runtime.task.flow import Flow
from tidegate.runtime.tracebacks import Carried
from tidegate.twophase.spi import Answer, Committable

__all__ = [
    "Aborted",
    "Acked",
    "Announce",
    "Answered",
    "AssignSplits",
    "Commit",
    "Declined",
    "Drained",
    "EndInput",
    "Failed",
    "FromSubtask",
    "NoMoreSplits",
    "Opened",
    "Progress",
    "ReadUntil",
    "Settled",
    "SplitsWanted",
    "TimeReached",
    "ToEnumerator",
    "ToReader",
    "ToSubtask",
    "Trigger",
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
class Trigger:
    """Start a checkpoint at the sources; `confirmed` is the newest decided one."""

    checkpoint: CheckpointId
    confirmed: CheckpointId | None


@dataclass(frozen=True, slots=True)
class Announce:
    """Take part in a checkpoint at once, whatever is in front of its barriers."""

    checkpoint: CheckpointId
    confirmed: CheckpointId | None


@dataclass(frozen=True, slots=True)
class Commit:
    """Make what this subtask prepared visible: the checkpoint is decided."""

    checkpoint: CheckpointId
    committables: tuple[Committable, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """All output up to the checkpoint is visible."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Aborted:
    """The checkpoint was given up."""

    checkpoint: CheckpointId


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
    | Aborted
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
class Acked:
    """The subtask's part of a checkpoint is durable."""

    subtask: Subtask
    checkpoint: CheckpointId
    reports: tuple[OperatorReport, ...]
    spare_ms: float = math.inf
    """How long the decision can wait; after that prepared work could expire before its commit."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The subtask's part could not be made durable; the job goes on."""

    subtask: Subtask
    checkpoint: CheckpointId
    error: TidegateError


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of committables."""

    subtask: Subtask
    checkpoint: CheckpointId
    answers: tuple[tuple[Committable, Answer], ...]


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
    | Acked
    | Declined
    | Answered
    | Drained
    | Failed
    | Progress
)
