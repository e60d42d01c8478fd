"""What a sink owes the framework so that its output appears exactly once.

A *writer* (one per subtask) makes records durable but invisible and names them in a *committable*. Only after the
checkpoint that holds the committable is decided does a *committer*, in whatever process, make it visible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import msgspec

from tidegate.clock import Clock
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask

__all__ = [
    "CommitAnswer",
    "Committable",
    "Committer",
    "CommitterContext",
    "GlobalCommitter",
    "ProgramContext",
    "SinkWriter",
    "SupportsClaim",
    "SupportsEncoding",
    "SupportsOpenWork",
    "SupportsWatermarks",
    "SupportsWriterState",
    "WriterContext",
]


class CommitAnswer(Enum):
    """What an external system says about one committable."""

    COMMITTED = "committed"
    """This call made it visible."""
    ALREADY_COMMITTED = "already committed"
    """An earlier call did; the system itself, not an error code, proves it."""
    RETRY = "retry"
    """Nothing changed; ask again later."""
    ABORTED = "aborted"
    """It is not visible and never will be; the system proves it."""
    UNKNOWN = "unknown"
    """It cannot be told; never replaced by another answer because it is likely."""


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
    """How long prepared work may have to wait for its commit, with the pauses of restarts; None if nobody knows."""
    slot: int | None = None
    """Which of the bounded number of names its subtask has outside this writer may use, if it lives for one epoch; None: all of
    them, for long."""


class ProgramContext(Protocol):
    """What a program gives to all its functions, and what they show; for connectors that run functions of the user."""

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A parameter given to the whole program."""
        ...

    def add_accumulator(self, name: str, accumulator: Any) -> None:
        """Show in the job's result what is added to `accumulator`."""
        ...

    def get_metrics_group(self) -> Any:
        """Metrics of this function in this subtask."""
        ...

    def get_distributed_cache(self) -> Any:
        """Files that the program registered."""
        ...


class SinkWriter(ABC):
    """Writes the records of one subtask. Called by the subtask's thread alone."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take a batch; called for each one, may buffer, may block while the system pushes back.

        The batch's lists are the writer's to read until it returns. After a crash everything since the last
        decided checkpoint is written again.

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
        """Release resources; what was prepared stays prepared. Called once, also after an error."""


@runtime_checkable
class SupportsClaim(Protocol):
    """A committer whose names outside could be somebody else's too."""

    def claim(self) -> None:
        """Make sure that they are this pipeline's; may block.

        Called by any process, before the first of its writers opens and before anything is decided. Idempotent.

        Raises:
            ConfigError: they belong to somebody else.
            UnavailableError: the system did not answer.
        """
        ...


@runtime_checkable
class SupportsEncoding(Protocol):
    """A writer that takes records as what they will be outside.

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
class SupportsWriterState(Protocol):
    """A writer with something to remember besides committables, such as the valid length of an open file."""

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
    """Whose work may be committed or aborted: this pipeline's and this operator's, nothing else."""

    pipeline: PipelineId
    uid: OperatorUid
    lineage: LineageId
    clock: Clock
    home: str = ""
    """Where the pipeline's lease is; elsewhere another one of its name may run."""


class Committer(ABC):
    """Makes prepared work visible or removes it. Holds no state that a crash could lose."""

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> list[CommitAnswer]:
        """Make each committable visible and answer for each, in order.

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
        Idempotent. Never touches what is visible.

        Returns:
            How many pieces were removed.
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
class SupportsOpenWork(Protocol):
    """A committer whose writers' states name work outside that must outlive a restart."""

    def keep_open(self, states: Sequence[bytes]) -> None:
        """Spare, from here on, what these states name.

        Called before each `abort_except`, with the states of all writers in the checkpoint to go on from.

        Raises:
            StateFormatError: another version of the sink wrote one.
        """
        ...
