"""SPI of two-phase commit sinks: writers, committers and committables.

A *writer* (one per subtask) makes records durable but invisible and names them in a *committable*. Only after the
checkpoint that holds the committable is decided does a *committer*, in any process, make it visible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from tidegate.clock import Clock
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, OperatorUid, PipelineId, Subtask

__all__ = [
    "Answer",
    "CommitAnswer",
    "Committable",
    "Committer",
    "CommitterContext",
    "GlobalCommitter",
    "ProgramContext",
    "Retry",
    "SinkWriter",
    "SupportsArrow",
    "SupportsClaim",
    "SupportsEncoding",
    "SupportsExpiry",
    "SupportsFencing",
    "SupportsOpenWork",
    "SupportsWatermarks",
    "SupportsWriterState",
    "WriterContext",
]


class CommitAnswer(Enum):
    """What became of one committable, as the external system says."""

    COMMITTED = "committed"
    """This call made it visible."""
    ALREADY_COMMITTED = "already committed"
    """An earlier call did; the system itself, not an error code, proves it."""
    ABORTED = "aborted"
    """It is not visible and never will be; the system proves it."""
    UNKNOWN = "unknown"
    """It cannot be told; never replaced by another answer because it is likely."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The external system refused or did not answer; nothing changed; commit it again later.

    `reason` is for the operator of the job: what was refused, by which system, with its own message. It is shown by
    `tidegate info` and `tidegate checkpoints`, written to the event log, and names the cause if the job fails.
    """

    reason: str


Answer: TypeAlias = CommitAnswer | Retry
"""What a committer says about one committable."""


class Committable(msgspec.Struct, frozen=True):
    """Prepared work: all another process needs to commit it.

    `payload` is the sink's own, versioned encoding; `describe` and `records` are for the people who read errors.
    """

    uid: OperatorUid
    subtask: int
    checkpoint: CheckpointId
    payload: bytes
    describe: str
    records: int


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Who the writer is. (pipeline, uid, lineage, branch, subtask) names its work outside, never a run id."""

    pipeline: PipelineId
    uid: OperatorUid
    subtask: Subtask
    parallelism: int
    lineage: LineageId
    branch: Branch
    attempt: str
    """Differs between two executions of the same epoch; names what must not clash before the decision."""
    restored: tuple[bytes, ...]
    """States of the writers that now belong to this one; empty unless the writer `SupportsWriterState`."""
    clock: Clock
    program: ProgramContext | None = None
    """For functions of the user; None where no program runs."""
    exposed_ms: int | None = None
    """From the first record of a piece of work to its commit, with declined checkpoints and the pauses of restarts; None if
    unknown. A writer whose work expires sooner is refused when it opens."""
    pool_index: int | None = None
    """The index of the name that this writer may use among the bounded number its subtask has outside, such as transactional
    ids, if it lives for one epoch; None: all of them, for long."""
    term: FencingTerm = FencingTerm(0)
    """Numbers the owners of the pipeline. What is prepared outside carries it where the system lets us choose names."""


class ProgramContext(Protocol):
    """Program context of all functions: parameters, metrics, accumulators; for connectors that run user functions."""

    def manage(
        self, function: object, lock: AbstractContextManager[object] | None = None
    ) -> Callable[[CheckpointId], None]:
        """Give a function of the user its state, and tell it of checkpoints from now on, as the interfaces it has say.

        Called once per function, before it is opened. `lock` is held whenever the function is called on account of a
        checkpoint; needed if another thread runs it.

        Returns:
            What saves its state. The subtask's thread calls it for every checkpoint, at the moment to return to.

        Raises:
            ConfigError: it declares state of keys, and its input has none.
        """
        ...

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A parameter given to the whole program."""
        ...

    def add_accumulator(self, name: str, accumulator: Any) -> None:
        """Register an accumulator whose value is part of the job's result."""
        ...

    def get_metrics_group(self) -> Any:
        """Metrics of this function in this subtask."""
        ...

    def get_distributed_cache(self) -> Any:
        """Files that the program registered."""
        ...


class SinkWriter(ABC):
    """Writes the records of one subtask. Called only by the subtask's thread."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take a batch; called for each one, may buffer, may block while the system pushes back.

        The batch's lists are the writer's to read until it returns; what a record does to a table is in `kinds` and
        nowhere else. After a crash everything since the last decided checkpoint is written again.

        Raises:
            UnavailableError: the system did not answer; the subtask fails and is restored.
            FencedError: a newer writer owns this work; the subtask stops for good.
            RecordError: a record cannot be written; handled as `on_error` says.
        """

    @abstractmethod
    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """Make everything written so far durable but invisible.

        Called by the subtask's thread once per checkpoint, after the barrier and before the ack, and once more at
        the end of a bounded input. May block. After it returns a crash must not lose the data: the payload alone
        is enough for another process to commit it. Not called twice for one checkpoint in one attempt.

        Returns:
            Payload, description and number of records, or None if nothing was written since the last call.

        Raises:
            UnavailableError: the checkpoint is declined; at the second time in a row the subtask is restored.
            FencedError: a newer writer owns this work; the subtask stops for good.
        """

    def close(self) -> None:  # noqa: B027
        """Release resources; prepared work stays prepared. Called once, also after an error."""


@runtime_checkable
class SupportsClaim(Protocol):
    """A committer whose external names could also be used by a pipeline with other checkpoints."""

    def claim(self) -> None:
        """Claim these names for this pipeline, which `context.home` distinguishes from others with the same id; may block.

        Called by the coordinator before any other method and about once an hour while the pipeline runs, and by any
        process before the first of its writers opens; by a thread that is not the subtask's. Idempotent; every call renews
        the claim, so that a system which forgets what is old does not give the names to another pipeline. Of several
        pipelines that claim at the same moment one succeeds. A claim outlives the work it is for. `abort_except` claims as
        well, or is refused as `claim` is, before it removes anything.

        Raises:
            ConfigError: another pipeline has claimed them; the message names it and what to do.
            UnavailableError: the system did not answer; it is called again later.
        """
        ...


@runtime_checkable
class SupportsExpiry(Protocol):
    """A writer whose prepared work expires in the external system if it is not committed in time."""

    def expires_in_ms(self) -> int:
        """How long the work that `prepare` returned last can still be committed.

        Called by the subtask's thread right after every `prepare` that returned work; must not block. The time counts
        from the moment when the system starts to count, which is often the first record and not `prepare`. Work of a
        declined checkpoint is reported again with the next one, so it grows older: before every ack the framework
        checks that the oldest work lasts until its commit. If it may not, the subtask fails before anything is
        decided, and its records are written again.
        """
        ...


@runtime_checkable
class SupportsEncoding(Protocol):
    """A writer that accepts records in encoded form.

    They are encoded one by one where they are emitted, so what may change later is never copied.
    """

    def encode(self, value: Any) -> Any:
        """What `write_encoded` gets in place of a record; called by the subtask's thread for each, must not block.

        May not keep a hold of the record: it may change as soon as this returns.

        Raises:
            RecordError: the record cannot be written.
        """
        ...

    def write_encoded(self, batch: Batch) -> None:
        """As `write`, for a batch of what `encode` made."""
        ...


@runtime_checkable
class SupportsArrow(Protocol):
    """A writer that takes Arrow batches as they are; other writers get their rows."""

    def write_arrow(self, batch: Batch) -> None:
        """As `write`, for a batch whose values are `tidegate.arrow_rows.ArrowRows`.

        Called in place of `write`, in the order of the records. Its columns are never changed; its rows, if the writer
        reads any, are its own.
        """
        ...


@runtime_checkable
class SupportsWriterState(Protocol):
    """A writer with state in addition to committables, such as the valid length of an open file."""

    def snapshot(self, checkpoint: CheckpointId) -> bytes | None:
        """The state at the barrier, None if there is nothing; called right after `prepare`, must not block."""
        ...


@runtime_checkable
class SupportsWatermarks(Protocol):
    """A writer that wants to know how far event time is."""

    def watermark(self, timestamp: int) -> None:
        """No record at or before it is expected any more; `MAX_WATERMARK` at the end of all input.

        Called by the subtask's thread between batches. Must not block.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommitterContext:
    """Identifies the work that may be committed or aborted: only that of this pipeline and operator."""

    pipeline: PipelineId
    uid: OperatorUid
    lineage: LineageId
    clock: Clock
    home: str = ""
    """Where the pipeline's lease is; elsewhere another one of its name may run. Empty if no other run has its id."""
    term: FencingTerm = FencingTerm(0)
    """The term of the present owner; work of a newer term belongs to a newer owner."""
    check_owner: Callable[[], None] = lambda: None
    """Raises a `FencedError` if this process does not own the pipeline any more."""
    running: bool = False
    """Whether the pipeline runs already: it renews its claims and sets no claim of another pipeline aside."""


class Committer(ABC):
    """Makes prepared work visible or removes it. Holds no state that a crash could lose.

    The process may be stopped between any two instructions and replaced in the meantime. So every external action is done
    in three steps: *look* at what is there, *check* that this process is still the owner (`context.check_owner()`), and
    *act* on what was seen only if it is still that: remove a file of a term up to one's own, abort a transaction with
    the epoch that was seen. A committer that looks and acts by one call of the external system need not check: the
    framework checks before each call of a method.
    """

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Make each committable visible and answer for each, in order.

        What is refused is answered with a `Retry` and its reason, also if only a person can help, as with missing
        permissions. While there is input it is committed again, after half a second at first and ten later on, and the
        job continues. At its end the job fails once it was refused for longer than `execution.checkpointing.timeout`.

        Called only after the checkpoint is decided; by a background thread of the subtask, or by the ledger of
        the coordinator after a crash. May block. Idempotent: called again with the same committables, by any
        process, it finds out what happened and says so. Never raises for one committable alone.

        Raises:
            FencedError: this pipeline has a newer owner; nothing more was done.
        """

    @abstractmethod
    def abort_except(self, keep: Sequence[Committable]) -> int:
        """Remove every prepared or open piece of this pipeline's and operator's work that `keep` does not name.

        Called on start, after settlement and before any writer opens, and after a declined epoch. May block.
        Idempotent. Never touches what is visible, nor work of a term newer than `context.term`.

        Returns:
            How many pieces were removed.

        Raises:
            FencedError: this pipeline has a newer owner; nothing more was removed.
        """

    def close(self) -> None:  # noqa: B027
        """Release resources; called once."""


class GlobalCommitter(ABC):
    """Does for a whole sink what can only be done once all of a checkpoint's output is visible."""

    @abstractmethod
    def commit(self, checkpoint: CheckpointId, committables: Sequence[Committable]) -> None:
        """Finish a checkpoint, of which these committables of all writers are committed.

        Called by the coordinator, for one checkpoint after the other, before the checkpoint is settled. May block.
        After a crash it is called again for the same checkpoint, maybe by another process, and finds out what was
        done. Not called for a checkpoint without committables of this sink.

        Raises:
            UnavailableError: the system did not answer; it is called again later.
        """

    def close(self) -> None:  # noqa: B027
        """Release resources; called once."""


@runtime_checkable
class SupportsFencing(Protocol):
    """A committer whose external system can fence the writers of earlier owners, even those without open work."""

    def fence(self) -> None:
        """Refuse all writers that were opened before, also those of removed subtasks.

        Called on start, after `abort_except` and before any writer opens; so all decided work is visible. May block.
        Idempotent. Never touches a writer of a newer owner.

        Raises:
            FencedError: this pipeline has a newer owner; its writers are not touched.
            UnavailableError: the system did not answer; it is called again at the next start.
        """
        ...


@runtime_checkable
class SupportsOpenWork(Protocol):
    """A committer whose writers' states name external work that must survive a restart."""

    def keep_open(self, states: Sequence[bytes]) -> None:
        """Spare, from here on, what these states name.

        Called before each `abort_except`, with the states of all writers in the checkpoint to restore.

        Raises:
            StateFormatError: another version of the sink wrote one.
        """
        ...
