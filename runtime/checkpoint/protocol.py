"""Checkpoint protocol: the messages between coordinator, ledger, subtasks and executors.

Each message is one class, independent of who passes it on: a subtask's `Ack` is the coordinator's event, and the ledger's `Commit` is
the coordinator's action and the message to the subtask that prepared the work. Each executor has one performer of the
actions; see `docs/decisions/messages-and-performers.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tidegate.errors import TidegateError
from tidegate.ids import CheckpointId, Subtask
from tidegate.runtime.checkpoint.manifest import Unsettled
from tidegate.runtime.checkpoint.retention import Release
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.twophase.ledger import Answered, Commit, Settle

__all__ = [
    "Abort",
    "Ack",
    "Action",
    "Announce",
    "Answered",
    "Commit",
    "Decline",
    "EndJob",
    "Event",
    "FailJob",
    "Finish",
    "How",
    "MetadataDurable",
    "MetadataFailed",
    "Pause",
    "Plan",
    "Release",
    "Resume",
    "SavepointFailed",
    "SavepointOver",
    "SavepointWanted",
    "Settle",
    "Settled",
    "SettledDurable",
    "SwapLatest",
    "SwapLost",
    "Swapped",
    "Tick",
    "Trigger",
    "WriteMetadata",
    "WriteSavepoint",
]

How = Literal["finish", "stop"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Who takes part and when: all subtasks, those with a source, interval and time limit.

    At most `tolerated` checkpoints in a row may come to nothing; if None, any number of them, but two at the end.
    Between the end of one and the next, `pause_ms` pass. The first one comes after `first_ms` if that is sooner than the
    interval. Barriers that take longer than `aligned_ms` are overtaken, and
    never if that is None.
    """

    subtasks: tuple[Subtask, ...]
    sources: tuple[Subtask, ...]
    interval_ms: int
    timeout_ms: int = 600_000
    retained: int = 10
    tolerated: int | None = None
    pause_ms: int = 0
    aligned_ms: int | None = None
    first_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has advanced."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Take a last checkpoint: the input is at its end (`finish`) or a stop was requested (`stop`)."""

    how: How


@dataclass(frozen=True, slots=True)
class SavepointWanted:
    """A savepoint in a separate place was requested; one that comes right before `Finish` is of the last checkpoint."""

    place: str


@dataclass(frozen=True, slots=True)
class Ack:
    """A subtask's part is durable."""

    subtask: Subtask
    checkpoint: CheckpointId
    reports: tuple[OperatorReport, ...]
    spare_ms: float = math.inf
    """How long the decision may wait; later, prepared transactions could expire before their commit."""


@dataclass(frozen=True, slots=True)
class Decline:
    """A subtask's part could not be made durable."""

    subtask: Subtask
    checkpoint: CheckpointId
    error: TidegateError


@dataclass(frozen=True, slots=True)
class MetadataDurable:
    """The metadata is written; these files are it and what it refers to."""

    checkpoint: CheckpointId
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class MetadataFailed:
    """The metadata could not be written, or no subtask could be notified."""

    checkpoint: CheckpointId
    error: TidegateError


@dataclass(frozen=True, slots=True)
class Swapped:
    """The checkpoint is decided."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class SwapLost:
    """Another run owns the pipeline."""

    checkpoint: CheckpointId
    owner: str


@dataclass(frozen=True, slots=True)
class SettledDurable:
    """The mark that all output is visible is written."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Pause:
    """A failover region is down: checkpoints that are not acknowledged yet, or begin now, cannot be completed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """All parts of the job run again."""


@dataclass(frozen=True, slots=True)
class SavepointOver:
    """The savepoint is written, or cannot be."""

    place: str


Event = (
    Tick
    | Finish
    | Pause
    | Resume
    | SavepointWanted
    | Ack
    | Decline
    | MetadataDurable
    | MetadataFailed
    | Swapped
    | SwapLost
    | Answered
    | SettledDurable
    | SavepointOver
)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Send the barrier from every source; what `confirmed`, the newest decided checkpoint, refers to is kept meanwhile."""

    checkpoint: CheckpointId
    confirmed: CheckpointId | None


@dataclass(frozen=True, slots=True)
class Announce:
    """Let all subtasks without a source take part at once and overtake what is in front of the barriers."""

    checkpoint: CheckpointId
    confirmed: CheckpointId | None


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Make the metadata durable."""

    checkpoint: CheckpointId
    reports: tuple[OperatorReport, ...]
    unsettled: tuple[Unsettled, ...]


@dataclass(frozen=True, slots=True)
class SwapLatest:
    """Decide: make this checkpoint the pipeline's newest."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Settled:
    """All output up to the checkpoint is visible: notify all subtasks."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Write what a settled checkpoint holds to another place; its files stay until that is over."""

    checkpoint: CheckpointId
    place: str


@dataclass(frozen=True, slots=True)
class SavepointFailed:
    """No savepoint comes to this place."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Abort:
    """The checkpoint will not be decided: notify all subtasks; the job continues."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class EndJob:
    """The last checkpoint is settled: nothing is left to do."""

    how: How
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class FailJob:
    """The job cannot continue and must restart or fail."""

    error: TidegateError


Action = (
    Trigger
    | Announce
    | WriteMetadata
    | SwapLatest
    | Commit
    | Settle
    | Settled
    | Release
    | WriteSavepoint
    | SavepointFailed
    | Abort
    | EndJob
    | FailJob
)
