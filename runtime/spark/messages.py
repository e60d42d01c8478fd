"""What the driver and the tasks of an epoch hand to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import TidegateError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, Subtask
from tidegate.runtime.operators.environment import OperatorReport, RestoredOperator
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.shape import Shape

__all__ = ["Header", "Order", "Outcome", "Parcel", "ReadOrder", "TaskResult"]


@dataclass(frozen=True, slots=True)
class Order:
    """An epoch, as every task of it sees it.

    `attempt` is new for each attempt of a run, so with Spark's own task id it names an execution for ever.
    """

    shape: Shape
    vertices: Mapping[str, bytes]
    main_classes: bytes
    checkpoint: CheckpointId
    confirmed: CheckpointId | None
    restored: Mapping[Subtask, Mapping[OperatorUid, RestoredOperator]]
    now_ms: int
    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    run: RunId
    attempt: str
    storage: Any
    backend: Any
    options: JobOptions
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """What one source subtask reads in an epoch: at most `limit` records of these splits."""

    subtask: Subtask
    splits: tuple[bytes, ...]
    complete: bool
    """Whether these are the last splits it will ever get."""
    limit: int


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one execution of a subtask did; `task` is Spark's id of the execution."""

    subtask: Subtask
    task: int
    reports: tuple[OperatorReport, ...] = ()
    records: int = 0
    finished: bool = False
    """Whether a source subtask has read everything it will ever read."""
    wake_ms: int | None = None
    """When there is something to do even if nothing arrives."""
    error: TidegateError | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """Which execution of a source subtask a parcel comes from."""

    subtask: Subtask
    task: int
    finished: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Parcel:
    """Everything one source task sends to one task behind the exchange; sent even if there are no records.

    The source's own result travels with one of its parcels only.
    """

    header: Header
    frames: tuple[bytes, ...]
    result: TaskResult | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task of the last stage returns: its result, whose records it consumed, and their results."""

    result: TaskResult
    consumed: tuple[Header, ...] = ()
    upstream: tuple[TaskResult, ...] = ()
