"""Exactly once to a system without transactions: records wait in the checkpoint until it is decided.

Guarantee: exactly once if the system recognises a token it was given before, such as an idempotency key, or a row that
is written together with the records; at least once if it does not. An epoch's records are part of the checkpoint's
metadata, so this is for results of which there are few, and they are as late as the checkpoint.

Example:
    >>> from tidegate.datastream import StreamExecutionEnvironment
    >>> def deliver(token, records):
    ...     print(records)
    ...     return True
    >>> settings = {"execution.target": "inline", "parallelism.default": 1, "pipeline.progress": "off"}
    >>> env = StreamExecutionEnvironment.get_execution_environment(settings)
    >>> _ = env.from_collection(["a", "b"]).sink_to(WriteAheadSink(deliver))
    >>> _ = env.execute()
    ['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import msgspec

from tidegate.changelog import RowKinds
from tidegate.connectors.spi import OnBranch, Sink
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.row import values_with_kinds
from tidegate.serde import codec_for
from tidegate.twophase.one_by_one import OneByOneCommitter
from tidegate.twophase.spi import CommitAnswer, Committable, CommitterContext, SinkWriter, WriterContext

__all__ = ["Deliver", "WriteAheadSink"]

Deliver: TypeAlias = Callable[[str, list[Any]], bool]
"""Makes records visible under a token, in one act; False if they were under that token already."""


class WaitingRecords(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    """What a committable holds: the encoded records, and the token they are delivered under."""

    token: str
    records: list[bytes]


@dataclass(frozen=True)
class WriteAheadSink(Sink):
    """Hands the records of a subtask and checkpoint to a function once the checkpoint is decided.

    Args:
        deliver: Called with a token and the records, in any process, again after a crash with the same token. If it
            raises `UnavailableError` it is called again.
        on_branch: What happens to output committed after the checkpoint a branch goes back to.
    """

    deliver: Deliver
    on_branch: OnBranch = "refuse"

    delivery = "exactly-once"
    takes: ClassVar[RowKinds] = "rows"

    def open_writer(self, context: WriterContext) -> WriteAheadWriter:
        """Holds the records of an epoch."""
        return WriteAheadWriter(context)

    def open_committer(self, context: CommitterContext) -> WriteAheadCommitter:
        """Delivers them."""
        return WriteAheadCommitter(self.deliver, context.uid)


class WriteAheadWriter(SinkWriter):
    """Encodes records at once, so that what is written later does not show what became of them."""

    def __init__(self, context: WriterContext) -> None:
        self._encode = codec_for(None).encode
        self._uid = context.uid
        self._token = msgspec.json.encode(
            [context.pipeline, context.uid, context.lineage, context.branch, context.attempt]
        ).decode()
        self._index = context.subtask.index
        self._records: list[bytes] = []

    def write(self, batch: Batch) -> None:
        """Take a batch, all or nothing."""
        values = values_with_kinds(batch, f"sink {self._uid!r}")
        self._records += [self._encode(value) for value in values]

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        """What waits becomes part of the checkpoint."""
        if not self._records:
            return None
        waiting = WaitingRecords(f"{self._token}-{self._index}-{checkpoint}", self._records)
        self._records = []
        return msgspec.msgpack.encode(waiting), f"delivery {waiting.token}", len(waiting.records)


class WriteAheadCommitter(OneByOneCommitter):
    """Delivers what waits."""

    def __init__(self, deliver: Deliver, uid: OperatorUid) -> None:
        super().__init__("write-ahead sink", uid)
        self._deliver = deliver
        self._decode = codec_for(None).decode

    def _commit(self, work: Committable) -> CommitAnswer:
        waiting = msgspec.msgpack.decode(work.payload, type=WaitingRecords)
        new = self._deliver(waiting.token, [self._decode(record) for record in waiting.records])
        return CommitAnswer.COMMITTED if new else CommitAnswer.ALREADY_COMMITTED
