"""Sink operator: writes records, and prepares them for the commit at each barrier."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidegate import faults
from tidegate.elements import Batch, RowKind
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId
from tidegate.row import kinds_of, kinds_or_none
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.operators.operator import (
    BatchCall,
    Call,
    Emitted,
    Operator,
    Piece,
    Role,
    StepInput,
    StepKind,
)
from tidegate.twophase.spi import (
    Committable,
    SinkWriter,
    SupportsArrow,
    SupportsEncoding,
    SupportsExpiry,
    SupportsWatermarks,
    SupportsWriterState,
    WriterContext,
)

if TYPE_CHECKING:
    from tidegate.runtime.graph.stream_graph import StreamNode
    from tidegate.runtime.operators.context import OperatorContext

__all__ = ["SINK", "SinkOperator"]


class _Prepared(NamedTuple):
    work: Committable
    expires: float
    """When it expires in the external system, in monotonic seconds."""


class SinkOperator(Operator):
    """Writes batches; at a barrier reports work that is prepared and not decided yet."""

    def __init__(self, node: StreamNode, context: OperatorContext) -> None:
        self._node = node
        self._env = context.env
        self._prepared: list[_Prepared] = []
        self._writer = writer = _open_writer(node, context)
        if context.store is not None:
            # Its function uses keyed state, so each record is written while its key is bound.
            super().__init__(
                (Call("emit", self._write_one, bind=context.store.cursor, takes_kind=True),), context.store
            )
        elif isinstance(writer, SupportsEncoding):
            super().__init__((), batches=BatchCall(writer.write, writer.encode, writer.write_encoded))
        else:
            arrow = writer.write_arrow if isinstance(writer, SupportsArrow) else None
            super().__init__((), batches=BatchCall(writer.write, take_arrow=arrow))

    def event_time(self, watermark: int, piece: Piece) -> Emitted | None:
        """Pass the watermark to the writer, if it accepts watermarks."""
        if isinstance(self._writer, SupportsWatermarks):
            self._writer.watermark(watermark)
        return None

    def prepare(self, checkpoint: CheckpointId, confirmed: CheckpointId | None) -> OperatorReport:
        """Prepare the epoch.

        Work prepared for a checkpoint that was never decided is reported again: its records are also before this barrier,
        so it must be committed with this checkpoint.
        """
        if confirmed is not None:
            self._prepared = [each for each in self._prepared if each.work.checkpoint > confirmed]
        prepared = self._writer.prepare(checkpoint)
        faults.point("sink.after-prepare")
        if prepared is not None:
            payload, describe, records = prepared
            index = self._env.subtask.index
            work = Committable(self._node.uid, index, checkpoint, payload, describe, records)
            self._prepared.append(_Prepared(work, self._expires()))
        state = self._writer.snapshot(checkpoint) if isinstance(self._writer, SupportsWriterState) else None
        reported = tuple(each.work for each in self._prepared)
        return OperatorReport(self._node.uid, self._env.subtask.index, writer=state, committables=reported)

    def spare_ms(self) -> float:
        """How long the decision on the reported work can wait; infinite if the work does not expire.

        Called right before the ack, possibly in another thread than the subtask's.

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
        """Close the writer, then the state."""
        try:
            self._writer.close()
        finally:
            super().close()

    def _write_one(self, value: Any, timestamp: int | None, kind: RowKind | None = None) -> tuple[()]:
        times = None if timestamp is None else [timestamp]
        kinds = kinds_of([value]) if kind is None else kinds_or_none([kind])
        self._writer.write(Batch([value], times, kinds=kinds))
        return ()

    def _expires(self) -> float:
        writer = self._writer
        if not isinstance(writer, SupportsExpiry):
            return math.inf
        return self._env.clock.monotonic() + writer.expires_in_ms() / 1_000


SINK: Final = StepKind("sink", SinkOperator, Role.SINK, inputs=(StepInput(takes="any"),))


def _open_writer(node: StreamNode, context: OperatorContext) -> SinkWriter:
    env = context.env
    writer: SinkWriter = node.payload.open_writer(
        WriterContext(
            pipeline=env.pipeline,
            uid=node.uid,
            subtask=env.subtask,
            parallelism=env.parallelism,
            lineage=env.lineage,
            branch=env.branch,
            attempt=env.attempt,
            restored=env.operator(node.uid).writers,
            clock=env.clock,
            program=context,
            exposed_ms=env.exposed_ms,
            pool_index=env.pool_index() if env.pool_index else None,
            term=env.term,
        )
    )
    return writer
