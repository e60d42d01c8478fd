"""What a chain needs to know about where it runs, and what it reports; the same on every executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidegate.backends.spi import Backend, BackendContext, KeyedHandle
from tidegate.clock import Clock
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.keys import KeyGroupRange
from tidegate.twophase.spi import Committable

__all__ = ["ChainEnvironment", "OperatorReport", "RestoredOperator"]


class OperatorReport(msgspec.Struct, frozen=True):
    """What one operator in one subtask contributes to a checkpoint."""

    uid: OperatorUid
    subtask: int
    keyed: KeyedHandle | None = None
    splits: tuple[bytes, ...] = ()
    writer: bytes | None = None
    committables: tuple[Committable, ...] = ()


class RestoredOperator(msgspec.Struct, frozen=True):
    """What an operator in a subtask starts from, after redistribution."""

    keyed: tuple[KeyedHandle, ...] = ()
    writers: tuple[bytes, ...] = ()


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
    backend: Backend
    state: BackendContext
    cache_entries: int
    checkpoint: CheckpointId | None = None
    """The checkpoint it was restored from."""
    restored: Mapping[OperatorUid, RestoredOperator] = field(default_factory=dict)

    def operator(self, uid: OperatorUid) -> RestoredOperator:
        """What `uid` starts from; nothing if it is new."""
        return self.restored.get(uid, RestoredOperator())

    def directory(self, uid: OperatorUid) -> Path:
        """A local directory of its own for the state of `uid`."""
        path = self.state.directory / f"{uid}-{self.subtask.index}".replace("/", "_")
        path.mkdir(parents=True)
        return path
