"""A sink's writer at work in one subtask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate import faults
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.runtime.graph.stream_graph import StreamNode
from tidegate.runtime.operators.environment import ChainEnvironment, OperatorReport
from tidegate.runtime.operators.surroundings import Surroundings
from tidegate.twophase.spi import (
    Committable,
    SinkWriter,
    SupportsEncoding,
    SupportsWatermarks,
    SupportsWriterState,
    WriterContext,
)

__all__ = ["SinkOperator"]


class SinkOperator:
    """Writes batches; at a barrier reports what was prepared and is not decided yet."""

    def __init__(self, node: StreamNode, env: ChainEnvironment) -> None:
        self._node = node
        self._env = env
        self._writer: SinkWriter | None = None
        self._prepared: list[Committable] = []

    @property
    def uid(self) -> OperatorUid:
        """The step it is."""
        return self._node.uid

    def open(self) -> None:
        """Open the writer."""
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
                program=Surroundings(self._node.uid, env),
                exposed_ms=env.exposed_ms,
                slot=env.slot() if env.slot else None,
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
            self._prepared = [c for c in self._prepared if c.checkpoint > confirmed]
        prepared = self._opened.prepare(checkpoint)
        faults.point("sink.after-prepare")
        if prepared is not None:
            payload, describe, records = prepared
            index = self._env.subtask.index
            self._prepared.append(Committable(self._node.uid, index, checkpoint, payload, describe, records))
        state = self._opened.snapshot(checkpoint) if isinstance(self._opened, SupportsWriterState) else None
        return OperatorReport(
            self._node.uid, self._env.subtask.index, writer=state, committables=tuple(self._prepared)
        )

    def close(self) -> None:
        """Close the writer if it was opened."""
        if self._writer is not None:
            self._writer.close()

    @property
    def _opened(self) -> SinkWriter:
        assert self._writer is not None
        return self._writer
