"""The numbers of a run: plain values that are never changed, so that everybody can read them at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidegate.ids import CheckpointId
from tidegate.runtime.metrics import Value
from tidegate.runtime.schedule.states import JobState
from tidegate.runtime.task.flow import Flow

__all__ = ["CheckpointStats", "DiscoveryStats", "OperatorStats", "RunSnapshot", "State"]

State: TypeAlias = JobState


@dataclass(frozen=True, slots=True)
class CheckpointStats:
    """The life of one checkpoint so far."""

    checkpoint: CheckpointId
    state: Literal["pending", "decided", "settled", "aborted"]
    triggered_ms: int
    """Wall time."""
    acked: int = 0
    """Subtasks whose part is durable."""
    decided_after_ms: int | None = None
    settled_after_ms: int | None = None
    size: int | None = None
    """The bytes it refers to."""
    transactions: int = 0
    """Pieces of its output that are still to be made visible."""
    sinks: Mapping[str, int] = field(default_factory=dict)
    """The same for each sink that promised any: 0 once its output is visible; it is settled when all are."""
    reason: str | None = None
    """Why it was given up, or why its output is not visible yet."""


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """All subtasks of one chain of operators, named by its first step."""

    subtasks: int
    records: int
    """Read or received in this attempt."""
    per_second: float
    held_up: float
    """The largest share of the time that one of its subtasks waited for a receiver."""
    waiting: float
    """The largest share of what may wait in front of one of its subtasks that does."""
    behind_ms: int | None
    """How far its event time is behind the clock; None without event time, or at its end."""
    reading: float | None = None
    """The largest share of the time that one of a source's subtasks read and worked; None for what is no source."""


@dataclass(frozen=True, slots=True)
class DiscoveryStats:
    """How a source looks for new splits."""

    failed: int
    """Looks that failed, or left something out that may not be read."""
    failing_s: float | None
    """How long they have failed; None if the newest did not."""
    reason: str | None
    """Why the newest failed."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run at one moment.

    `records` counts what sources have read since the run started, replayed records included.
    """

    at_ms: int
    """Wall time."""
    state: State
    elapsed_s: float
    records: int
    per_second: float
    decided: int
    settled: int
    aborted: int
    newest_settled: CheckpointId | None
    settled_age_s: float | None
    restarts: int
    failure: str | None
    """What it was restarted for last."""
    metrics: Mapping[str, Value]
    """Of user functions, by operator uid, subtask and name."""
    flow: Mapping[str, Flow]
    """How freely records move, by subtask."""
    operators: Mapping[str, OperatorStats]
    checkpoint_ms: int | None
    """How long the newest decided checkpoint took from its trigger on."""
    checkpoint_bytes: int | None
    """What the newest decided checkpoint refers to."""
    open_transactions: int
    """Pieces of output that are decided and not yet known to be visible."""
    unsettled_age_s: float | None
    """For how long the oldest checkpoint whose output is not visible has been decided; None if all is visible."""
    unsettled_reason: str | None
    """Why it is not visible, if committing it was refused."""
    commits_retried: Mapping[str, int]
    """How often pieces of output were refused and are committed again, by sink."""
    behind_ms: int | None
    """How far event time is behind the clock in the operator that is furthest behind."""
    slowest: str | None
    """The operator that holds up the others: input waits in front of it, and nobody behind it holds it up."""
    checkpoints: tuple[CheckpointStats, ...]
    """The newest ones, oldest first."""
    discovery: Mapping[str, DiscoveryStats]
    """By source: those whose looks for new splits ever failed."""
    warnings: tuple[str, ...]
    """What the user should see to while the job runs on."""
