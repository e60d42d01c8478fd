"""Chain environment: what a chain needs to know about where it runs, and what it reports; the same on every executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from tidegate.backends.spi import Backend, BackendContext, Chunk, KeyedHandle
from tidegate.clock import Clock
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.keys import KeyGroupRange, range_of
from tidegate.runtime.operators.event_loop import EventLoop
from tidegate.runtime.operators.event_time import EventTime
from tidegate.runtime.operators.measures import Measures
from tidegate.runtime.operators.operator_list import OperatorList
from tidegate.runtime.program_resources import ProgramResources
from tidegate.twophase.spi import Committable

if TYPE_CHECKING:
    from tidegate.runtime.graph.job_graph import JobVertex
    from tidegate.runtime.options import JobOptions

__all__ = [
    "ChainEnvironment",
    "DryRun",
    "JobRun",
    "OperatorReport",
    "RestoredOperator",
    "environment_of",
]


class OperatorReport(msgspec.Struct, frozen=True):
    """The snapshot of one operator in one subtask."""

    uid: OperatorUid
    subtask: int
    keyed: KeyedHandle | None = None
    splits: tuple[bytes, ...] = ()
    writer: bytes | None = None
    committables: tuple[Committable, ...] = ()
    lists: tuple[OperatorList, ...] = ()
    dropped: tuple[str, ...] = ()
    """Files it has written that no checkpoint refers to or will refer to."""
    in_flight: Chunk | None = None
    """Its in-flight records, if the checkpoint is unaligned."""
    time: EventTime | None = None
    """The watermark after it, if there is one and it is not the last one."""


class RestoredOperator(msgspec.Struct, frozen=True):
    """The restored state of one operator in one subtask, after redistribution."""

    keyed: tuple[KeyedHandle, ...] = ()
    writers: tuple[bytes, ...] = ()
    lists: tuple[OperatorList, ...] = ()
    in_flight: tuple[Chunk, ...] = ()
    """The in-flight records of all its subtasks; each subtask selects its own."""
    times: tuple[EventTime, ...] = ()
    """The watermark in each of its subtasks."""
    parallelism: int = 0
    """Its parallelism in the checkpoint."""
    may_leave: bool = False
    """Whether state that is not declared may be dropped although new state of the same kind is declared: it may be the same
    state, renamed."""

    def items(self, name: str) -> tuple[bytes, ...]:
        """The operator state with this name; empty if there is none."""
        return next((each.items for each in self.lists if each.name == name), ())


@dataclass(frozen=True, slots=True)
class ChainEnvironment:
    """The environment of one subtask: its ids, its key groups, its restored state."""

    subtask: Subtask
    parallelism: int
    max_parallelism: int
    key_groups: KeyGroupRange
    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    attempt: str
    clock: Clock
    """The clock of user functions and timers."""
    backend: Backend
    state: BackendContext
    cache_entries: int
    checkpoint: CheckpointId | None = None
    """The checkpoint that was restored."""
    restored: Mapping[OperatorUid, RestoredOperator] = field(default_factory=dict)
    resources: ProgramResources = field(default_factory=ProgramResources)
    """Resources of the program, available to all its functions."""
    measures: Measures = field(default_factory=Measures)
    """Collects accumulators and metrics of functions."""
    uploads: Executor | None = None
    """Compacts state in the background, while checkpoints continue; None if a task lives for one epoch."""
    requests: EventLoop = field(default_factory=EventLoop)
    """The event loop of asynchronous user functions."""
    traced: bool = False
    """Whether records carry their source position; each is then processed alone."""
    batch: bool = False
    """Whether the job is a batch job: event time advances once, at the end, and input is sorted by key."""
    incremental: bool = True
    """Whether a checkpoint refers to files of earlier ones."""
    snapshots_wait: bool = False
    """Whether records wait until a snapshot is written."""
    pool_index: Callable[[], int] | None = None
    """The index of this execution in the id pools of its sinks, such as pools of transactional ids; None if it may use all ids."""
    exposed_ms: int | None = None
    """The time from the first record of a sink's work to its commit; None if unknown."""
    commit_ms: int = 0
    """The minimum time until a sink's work expires when its checkpoint is decided."""
    term: FencingTerm = FencingTerm(0)
    """The fencing term of the owner that started it."""
    outside: Clock | None = None
    """The machine's clock, for readers and for waits inside the process; None if it is `clock`."""
    wake: Callable[[], None] = lambda: None
    """Wakes the subtask's thread; safe to call from any thread."""

    @property
    def machine(self) -> Clock:
        """The clock for waits and timeouts; user functions do not see it."""
        return self.outside or self.clock

    def operator(self, uid: OperatorUid) -> RestoredOperator:
        """The restored state of `uid`; empty if it is new."""
        return self.restored.get(uid, RestoredOperator())

    def directory(self, uid: OperatorUid) -> Path:
        """The local directory for the state of `uid`."""
        path = self.state.directory / f"{uid}-{self.subtask.index}".replace("/", "_")
        path.mkdir(parents=True)
        return path


class JobRun(Protocol):
    """Data that all subtasks of a run share; executors send it to their workers."""

    @property
    def pipeline(self) -> PipelineId:
        """The pipeline."""
        ...

    @property
    def lineage(self) -> LineageId:
        """The lineage: a series of checkpoints, each restored from the one before."""
        ...

    @property
    def branch(self) -> Branch:
        """The branch of the lineage."""
        ...

    @property
    def term(self) -> FencingTerm:
        """The fencing term of its owner."""
        ...

    @property
    def options(self) -> JobOptions:
        """Its settings."""
        ...


@dataclass(frozen=True, slots=True)
class DryRun:
    """A run without a pipeline; it keeps no checkpoints."""

    options: JobOptions
    pipeline: PipelineId = PipelineId("dry-run")
    lineage: LineageId = LineageId("dry-run")
    branch: Branch = Branch(0)
    term: FencingTerm = FencingTerm(0)


def environment_of(
    vertex: JobVertex,
    subtask: Subtask,
    run: JobRun,
    *,
    attempt: str,
    clock: Clock,
    backend: Backend,
    state: BackendContext,
    checkpoint: CheckpointId | None = None,
    restored: Mapping[OperatorUid, RestoredOperator] | None = None,
) -> ChainEnvironment:
    """The environment of a subtask; executors override what differs."""
    return ChainEnvironment(
        subtask=subtask,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        key_groups=range_of(subtask.index, vertex.parallelism, vertex.max_parallelism),
        pipeline=run.pipeline,
        lineage=run.lineage,
        branch=run.branch,
        term=run.term,
        attempt=attempt,
        clock=clock,
        backend=backend,
        state=state,
        cache_entries=run.options.cache_entries,
        checkpoint=checkpoint,
        restored=restored or {},
        resources=run.options.resources,
        incremental=run.options.incremental,
        exposed_ms=run.options.exposed_ms,
        commit_ms=run.options.commit_ms,
        traced=vertex.traced,
        batch=vertex.batch,
    )
