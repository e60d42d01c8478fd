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
    """What one operator in one subtask contributes to a checkpoint."""

    uid: OperatorUid
    subtask: int
    keyed: KeyedHandle | None = None
    splits: tuple[bytes, ...] = ()
    writer: bytes | None = None
    committables: tuple[Committable, ...] = ()
    lists: tuple[OperatorList, ...] = ()
    dropped: tuple[str, ...] = ()
    """Files it has written that no checkpoint refers to nor will."""
    in_flight: Chunk | None = None
    """What was on its way to it, if the checkpoint has overtaken that."""
    time: EventTime | None = None
    """How far event time is behind it, if there is any and it is not at its end."""


class RestoredOperator(msgspec.Struct, frozen=True):
    """What an operator in a subtask starts from, after redistribution."""

    keyed: tuple[KeyedHandle, ...] = ()
    writers: tuple[bytes, ...] = ()
    lists: tuple[OperatorList, ...] = ()
    in_flight: tuple[Chunk, ...] = ()
    """What was on its way to all its subtasks; each takes what is its own."""
    times: tuple[EventTime, ...] = ()
    """How far event time was in each of its subtasks."""
    parallelism: int = 0
    """How many subtasks it had."""
    may_leave: bool = False
    """Whether state of it may be left behind beside new state of the same kind, which may be the same state renamed."""

    def items(self, name: str) -> tuple[bytes, ...]:
        """The operator state of a name; empty if there is none."""
        return next((each.items for each in self.lists if each.name == name), ())


@dataclass(frozen=True, slots=True)
class ChainEnvironment:
    """One subtask's place in the job: who it is, what it owns, what it starts from."""

    subtask: Subtask
    parallelism: int
    max_parallelism: int
    key_groups: KeyGroupRange
    pipeline: PipelineId
    lineage: LineageId
    branch: Branch
    attempt: str
    clock: Clock
    """The time that user functions see and timers follow."""
    backend: Backend
    state: BackendContext
    cache_entries: int
    checkpoint: CheckpointId | None = None
    """The checkpoint it was restored from."""
    restored: Mapping[OperatorUid, RestoredOperator] = field(default_factory=dict)
    resources: ProgramResources = field(default_factory=ProgramResources)
    """What the program gives to all its functions."""
    measures: Measures = field(default_factory=Measures)
    """Collects what functions measure."""
    uploads: Executor | None = None
    """Writes new bases of state while checkpoints go on; None where a task does not outlive its epoch."""
    requests: EventLoop = field(default_factory=EventLoop)
    """Runs what user functions await."""
    traced: bool = False
    """Whether records know where they were read, each being taken alone."""
    batch: bool = False
    """Whether the job is a batch job: time moves once, at the end, and keys come one after the other."""
    incremental: bool = True
    """Whether a checkpoint refers to files of earlier ones."""
    snapshots_wait: bool = False
    """Whether records wait until a snapshot is written."""
    pool_index: Callable[[], int] | None = None
    """The index of the name that this execution may use in each pool of its sinks, such as transactional ids; None if all."""
    exposed_ms: int | None = None
    """From the first record of a sink's work to its commit; None if unknown."""
    commit_ms: int = 0
    """What must be left of the time of a sink's work when its checkpoint is decided."""
    term: FencingTerm = FencingTerm(0)
    """That of the owner who started it."""
    outside: Clock | None = None
    """The machine's clock, for readers and for every wait inside the process; None if it is `clock`."""
    wake: Callable[[], None] = lambda: None
    """Makes the subtask's thread look for work; safe to call from any thread."""

    @property
    def machine(self) -> Clock:
        """What waiting is measured by, which has nothing to do with the time that user functions see."""
        return self.outside or self.clock

    def operator(self, uid: OperatorUid) -> RestoredOperator:
        """What `uid` starts from; nothing if it is new."""
        return self.restored.get(uid, RestoredOperator())

    def directory(self, uid: OperatorUid) -> Path:
        """A local directory of its own for the state of `uid`."""
        path = self.state.directory / f"{uid}-{self.subtask.index}".replace("/", "_")
        path.mkdir(parents=True)
        return path


class JobRun(Protocol):
    """What all subtasks of a run have in common; executors send it to their workers."""

    @property
    def pipeline(self) -> PipelineId:
        """Whose run it is."""
        ...

    @property
    def lineage(self) -> LineageId:
        """Its unbroken series of checkpoints."""
        ...

    @property
    def branch(self) -> Branch:
        """Which branch of the lineage."""
        ...

    @property
    def term(self) -> FencingTerm:
        """That of its owner."""
        ...

    @property
    def options(self) -> JobOptions:
        """Its settings."""
        ...


@dataclass(frozen=True, slots=True)
class DryRun:
    """A run outside of any pipeline, of which nothing is kept."""

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
    """The environment of a subtask on any executor, which replaces what it does in its own way."""
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
