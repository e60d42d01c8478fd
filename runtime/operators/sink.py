"""A sink's writer at work in one subtask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tidegate import faults
from tidegate.elements import Batch
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.twophase.spi import (
    Committable,
    ProgramContext,
    SinkWriter,
    SupportsEncoding,
    SupportsExpiry,
    SupportsWatermarks,
    SupportsWriterState,
    WriterContext,
)

__all__ = ["SinkOperator"]


class _Prepared(NamedTuple):
    work: Committable
    expires: float
    """When the external system drops it, as monotonic seconds."""


class SinkOperator:
    """Writes batches; at a barrier reports what was prepared and is not decided yet."""

    def __init__(self, node: StreamNode, env: ChainEnvironment) -> None:
        self._node = node
        self._env = env
        self._writer: SinkWriter | None = None
        self._prepared: list[_Prepared] = []

    @property
    def uid(self) -> OperatorUid:
        """The step it is."""
        return self._node.uid

    def open(self, program: ProgramContext) -> None:
        """Open the writer; `program` is what functions of the user in it get."""
        env = self._env
        self._writer = self._node.payload.open_writer(
            WriterContext(
                pipeline=env.pipeline,
                uid=self._node.uid,
                subtask=env.subtask,
                parallelism=env.parallelism,
                lineage=env.lineage,
                branch=env.branch,
                attempt=env.attempt,
                restored=env.operator(self._node.uid).writers,
                clock=env.clock,
                program=program,
                exposed_ms=env.exposed_ms,
                slot=env.slot() if env.slot else None,
                term=env.term,
            )
        )

    @property
    def encoding(self) -> tuple[Callable[[Any], Any], Callable[[Batch], None]] | None:
        """What encodes a record, and what takes a batch of encoded ones; None if the writer takes records."""
        writer = self._opened
        return (writer.encode, writer.write_encoded) if isinstance(writer, SupportsEncoding) else None

    def write(self, batch: Batch) -> None:
        """Hand a batch to the writer."""
        self._opened.write(batch)

    def write_one(self, value: Any, timestamp: int | None) -> tuple[()]:
        """Hand a single record to the writer; nothing comes out."""
        self._opened.write(Batch([value], None if timestamp is None else [timestamp]))
        return ()

    def watermark(self, timestamp: int) -> None:
        """Tell the writer how far event time is, if it wants to know."""
        if isinstance(self._writer, SupportsWatermarks):
            self._writer.watermark(timestamp)

    def snapshot(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> OperatorReport:
        """Prepare the epoch.

        What was prepared for a checkpoint that was never decided is reported again: its records are behind the
        barrier of this one too, so it must be committed with it.
        """
        if confirmed is not None:
            self._prepared = [each for each in self._prepared if each.work.checkpoint > confirmed]
        prepared = self._opened.prepare(checkpoint)
        faults.point("sink.after-prepare")
        if prepared is not None:
            payload, describe, records = prepared
            index = self._env.subtask.index
            work = Committable(self._node.uid, index, checkpoint, payload, describe, records)
            self._prepared.append(_Prepared(work, self._expires()))
        state = self._opened.snapshot(checkpoint) if isinstance(self._opened, SupportsWriterState) else None
        reported = tuple(each.work for each in self._prepared)
        return OperatorReport(self._node.uid, self._env.subtask.index, writer=state, committables=reported)

    def spare_ms(self) -> float:
        """How long the decision on the reported work can wait; infinite if the work does not expire.

        Called right before the ack, maybe by another thread than the subtask's.

        Raises:
            UnavailableError: some of the work could expire before its commit.
        """
        oldest = min(self._prepared, key=lambda each: each.expires, default=None)
        if oldest is None:
            return math.inf
        left_ms = (oldest.expires - self._env.clock.monotonic()) * 1_000
        if left_ms < self._env.commit_ms:
            raise UnavailableError(
                f"sink {self._node.uid!r}: {oldest.work.describe} expires in {max(left_ms, 0):.0f} ms; its commit may take "
                f"{self._env.commit_ms} ms with the pauses of restarts; nothing is decided and the records are written "
                "again; let checkpoints complete sooner, or give the sink's work a longer timeout"
            )
        return left_ms - self._env.commit_ms

    def close(self) -> None:
        """Close the writer if it was opened."""
        if self._writer is not None:
            self._writer.close()

    def _expires(self) -> float:
        writer = self._opened
        if not isinstance(writer, SupportsExpiry):
            return math.inf
        return self._env.clock.monotonic() + writer.expires_in_ms() / 1_000

    @property
    def _opened(self) -> SinkWriter:
        assert self._writer is not None
        return self._writer
