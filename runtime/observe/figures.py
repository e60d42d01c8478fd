"""The numbers of a run: plain values that are never changed, so that everybody can read them at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tidegate.ids import CheckpointId
from tidegate.runtime.metrics import Value
from tidegate.runtime.schedule.states import JobState
from tidegate.runtime.task.flow import Flow

__all__ = ["CheckpointFigures", "OperatorFigures", "Snapshot", "State"]

State: TypeAlias = JobState


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
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
    """Why it was given up."""


@dataclass(frozen=True, slots=True)
class OperatorFigures:
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


@dataclass(frozen=True, slots=True)
class Snapshot:
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
    operators: Mapping[str, OperatorFigures]
    checkpoint_ms: int | None
    """How long the newest decided checkpoint took from its trigger on."""
    checkpoint_bytes: int | None
    """What the newest decided checkpoint refers to."""
    open_transactions: int
    """Pieces of output that are decided and not yet known to be visible."""
    behind_ms: int | None
    """How far event time is behind the clock in the operator that is furthest behind."""
    slowest: str | None
    """The operator that holds up the others: input waits in front of it, and nobody behind it holds it up."""
    checkpoints: tuple[CheckpointFigures, ...]
    """The newest ones, oldest first."""
