"""Messages between the driver and the tasks of an epoch."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import xxhash

from tidegate.errors import TidegateError
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, PipelineId, RunId, Subtask
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.operators.measures import Measured
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark.shape import Shape

__all__ = ["Order", "Outcome", "Parcel", "ReadOrder", "TaskResult", "digest"]


@dataclass(frozen=True, slots=True)
class Order:
    """The order of an epoch, sent to all its tasks.

    `attempt` is new for each attempt of a run, so with Spark's task id it is unique for each execution.
    """

    shape: Shape
    vertices: Mapping[str, bytes]
    main_classes: bytes
    checkpoint: CheckpointId
    confirmed: CheckpointId | None
    since: int | None
    """A Spark task number that no execution of an earlier epoch exceeds; None if unknown."""
    now_ms: int
    since_ms: int
    """The start of the attempt: no split has been idle for longer."""
    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    term: FencingTerm
    run: RunId
    attempt: str
    storage: Any
    backend: Any
    options: JobOptions
    path: tuple[str, ...]
    batch: bool = False
    """Whether this epoch is a batch job: it reads all input, and a level starts when the level before is complete."""


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """The input of one source subtask in an epoch: at most `limit` records of these splits, within the limits of the options.

    Without a limit it reads them to their ends and ignores the options.
    """

    subtask: Subtask
    splits: tuple[bytes, ...]
    complete: bool
    """Whether these are the last splits it will ever get."""
    limit: int | None
    until_ms: int | None = None
    """The maximum watermark it may read to, by watermark alignment; None if it is not aligned."""
    thorough: bool = False
    """Whether to wait longer than usual for a first record."""
    ending: bool = False
    """Whether the last watermark is sent, even if the splits hold more records."""
    starts: Mapping[Subtask, bytes] = field(default_factory=dict)
    """Its restored state, and that of later subtasks, which it passes on."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one execution of a subtask; `task` is Spark's id of the execution."""

    subtask: Subtask
    task: int
    reports: tuple[OperatorReport, ...] = ()
    records: int = 0
    """The number of records read or received."""
    wake_ms: int | None = None
    """Milliseconds until its next timer or announced record, even if no input arrives."""
    watermark: int | None = None
    """The watermark after its last step."""
    time: int | None = None
    """The watermark of an aligned source; None if it does not hold others back."""
    measured: Measured = field(default_factory=Measured)
    """Accumulators and metrics of its functions in the epoch."""
    limited: bool = False
    """Whether it stopped at a limit."""
    decide_by_ms: float = inf
    """The wall-clock time after which work of its sinks could expire before its commit; only in batch jobs, since an epoch of
    a stream is short."""
    error: TidegateError | None = None
    declined: bool = False
    """Whether only its part of the checkpoint failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task with the executions it consumed: `digest` of the execution of each task one level before, by
    partition."""

    result: TaskResult
    consumed: bytes = b""


def digest(executions: Iterable[int]) -> bytes:
    """A hash of the executions in this order, of constant length."""
    return xxhash.xxh3_128_digest(array("q", executions))


@dataclass(frozen=True, slots=True)
class Parcel:
    """The data, or a piece of it, that one task sends to one task of the next level; sent even without records.

    It also carries data for later levels, which the task passes on. Only the last piece has the outcome of the sender, and
    one of a task's last pieces has the outcomes of all earlier tasks.
    """

    sender: int
    """The partition of the task that sent it."""
    task: int
    """Spark's id of the execution that sent it."""
    number: int
    """The number of the piece among those for one receiver."""
    frames: tuple[tuple[Subtask, tuple[bytes, ...]], ...]
    last: bool = False
    failed: bool = False
    starts: tuple[tuple[Subtask, tuple[bytes, ...]], ...] = ()
    outcomes: tuple[Outcome, ...] = ()
