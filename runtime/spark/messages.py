"""What the driver and the tasks of an epoch hand to each other."""

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
    """An epoch, as every task of it sees it.

    `attempt` is new for each attempt of a run, so with Spark's own task id it names an execution for ever.
    """

    shape: Shape
    vertices: Mapping[str, bytes]
    main_classes: bytes
    checkpoint: CheckpointId
    confirmed: CheckpointId | None
    since: int | None
    """A number of Spark's that no execution of an earlier epoch exceeds; None if there is none to go by."""
    now_ms: int
    since_ms: int
    """When the attempt began: nobody has been idle for longer."""
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
    """Whether this one epoch is a batch job: all input is read in it, and a level begins when the one before is through."""


@dataclass(frozen=True, slots=True)
class ReadOrder:
    """What one source subtask reads in an epoch: at most `limit` records of these splits, and what the options allow.

    Without a limit it reads them to their ends, whatever the options say.
    """

    subtask: Subtask
    splits: tuple[bytes, ...]
    complete: bool
    """Whether these are the last splits it will ever get."""
    limit: int | None
    until_ms: int | None = None
    """How far in event time it may read, for the sake of slower sources; None if it keeps together with none."""
    thorough: bool = False
    """Whether to wait longer than usual for a first record."""
    ending: bool = False
    """Whether event time comes to its end, whatever the splits still hold."""
    starts: Mapping[Subtask, bytes] = field(default_factory=dict)
    """What it starts from, and later subtasks that hear of it by way of this one."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one execution of a subtask did; `task` is Spark's id of the execution."""

    subtask: Subtask
    task: int
    reports: tuple[OperatorReport, ...] = ()
    records: int = 0
    """How many it has read or received."""
    wake_ms: int | None = None
    """In how many milliseconds there is something to do even if nothing arrives."""
    watermark: int | None = None
    """How far event time is behind its last step."""
    time: int | None = None
    """How far event time is in an aligned source; None if it holds nobody back for now, or ever."""
    measured: Measured = field(default_factory=Measured)
    """What its functions have measured in the epoch."""
    limited: bool = False
    """Whether it might have read more, had it been allowed to."""
    decide_by_ms: float = inf
    """The wall-clock time after which what its sinks have prepared could expire before its commit; an epoch of a stream is
    too short for that."""
    error: TidegateError | None = None
    declined: bool = False
    """Whether all that failed is its part of the checkpoint."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task did, and what it did that with: `digest` of the execution of each task one level before, by partition."""

    result: TaskResult
    consumed: bytes = b""


def digest(executions: Iterable[int]) -> bytes:
    """The same for the same executions in the same order, and as short for thousands of them as for two."""
    return xxhash.xxh3_128_digest(array("q", executions))


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one task sends to one task of the next level, or a piece of it; sent even if there are no records.

    Besides what is for that task, it carries what goes further, which the task passes on. Only the last piece says what
    became of the sender, and one of a task's last pieces brings along what is known of the tasks so far.
    """

    sender: int
    """The partition of the task that sent it."""
    task: int
    """Spark's id of the execution that sent it."""
    number: int
    """Among the pieces for one receiver."""
    frames: tuple[tuple[Subtask, tuple[bytes, ...]], ...]
    last: bool = False
    failed: bool = False
    starts: tuple[tuple[Subtask, tuple[bytes, ...]], ...] = ()
    outcomes: tuple[Outcome, ...] = ()
