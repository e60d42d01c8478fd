"""Statistics of a run: immutable values that can be read by any thread at any time."""

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
    """Subtasks that have acknowledged it."""
    decided_after_ms: int | None = None
    settled_after_ms: int | None = None
    size: int | None = None
    """The bytes it refers to."""
    transactions: int = 0
    """Committables not yet committed."""
    sinks: Mapping[str, int] = field(default_factory=dict)
    """The same by sink, for sinks with committables: 0 once all are committed; the checkpoint is settled when all sinks are at 0."""
    reason: str | None = None
    """Why it was aborted, or why its output is not visible yet."""


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """All subtasks of one chain of operators, named by its first step."""

    subtasks: int
    records: int
    """Read or received in this attempt."""
    per_second: float
    held_up: float
    """The largest share of time that one of its subtasks waited for a receiver."""
    waiting: float
    """The largest used share of an input queue among its subtasks."""
    behind_ms: int | None
    """How far its watermark is behind the clock; None without event time, or after the last watermark."""
    reading: float | None = None
    """The largest share of time that a subtask of a source read and processed records; None if it is not a source."""


@dataclass(frozen=True, slots=True)
class DiscoveryStats:
    """How a source looks for new splits."""

    failed: int
    """Discoveries that failed, or skipped splits without read permission."""
    failing_s: float | None
    """For how long they have failed; None if the last one succeeded."""
    reason: str | None
    """Why the last one failed."""


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
    """The failure behind the last restart."""
    metrics: Mapping[str, Value]
    """Metrics of user functions, by operator uid, subtask and name."""
    flow: Mapping[str, Flow]
    """Backpressure figures by subtask."""
    operators: Mapping[str, OperatorStats]
    checkpoint_ms: int | None
    """Time from trigger to decision of the newest decided checkpoint."""
    checkpoint_bytes: int | None
    """Bytes that the newest decided checkpoint refers to."""
    open_transactions: int
    """Committables that are decided and not yet known to be committed."""
    unsettled_age_s: float | None
    """Time since the oldest unsettled checkpoint was decided; None if all output is visible."""
    unsettled_reason: str | None
    """Why it is not settled, if a commit was refused."""
    commits_retried: Mapping[str, int]
    """Number of refused commits that are retried, by sink."""
    behind_ms: int | None
    """The largest lag of a watermark behind the clock among the operators."""
    slowest: str | None
    """The bottleneck: the operator with a full input queue and no backpressure from operators after it."""
    checkpoints: tuple[CheckpointStats, ...]
    """The newest checkpoints, oldest first."""
    discovery: Mapping[str, DiscoveryStats]
    """Split discovery by source, for sources whose discovery has failed at least once."""
    warnings: tuple[str, ...]
    """Problems that need attention while the job runs."""
