"""Sink for Structured Streaming: writes batches exactly once, through any connector with two-phase commit.

Executors prepare, the driver decides and commits. `write` runs in a task: it checks whether the batch is decided, claims
an index, and only then opens a writer, so that no attempt uses the names of another. `commit` runs in the driver:
it creates the batch's record, and only then ends transactions. A batch that Spark runs again after a crash finds the
record, writes nothing, and its commit completes the work in the record, even if the rows would differ now.

Two batches that follow each other are in different *lanes*, whose external names never collide: what the driver
removes after its decision belongs to this batch or an older one, and a task that was taken for dead cannot disturb the next
batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.spi import Sink, SupportsCommit, SupportsGlobalCommit, SupportsPreCommit
from tidegate.elements import Batch
from tidegate.errors import ConfigError
from tidegate.faults import point
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.runtime.spark.datasource.batches import Batches
from tidegate.runtime.spark.datasource.settings import Settings, row_sink, split, storage_of
from tidegate.runtime.spark.datasource.settling import settle
from tidegate.twophase.spi import Committable, Committer, CommitterContext, SupportsClaim, WriterContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Output", "StreamWriter", "TableWriter", "Written"]

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""The query of a task."""

_ONLY = 0
"""The batch number of a write that is not a stream."""

_claimed: set[tuple[str, str, str]] = set()
"""Lanes whose names this process has checked to belong to the query."""


@dataclass
class Written(WriterCommitMessage):
    """The prepared work of one task; empty if it had nothing to write or the batch was decided before."""

    query: str
    work: Committable | None


class Output:
    """The output of one query, for tasks and the driver."""

    def __init__(
        self, options: Mapping[str, str], columns: Sequence[str], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._settings, self._rest = split(options)
        self._storage = storage_of(self._settings)
        self._rows = row_sink(self._settings)
        self._columns = columns
        self._clock = clock
        self._sink("0")

    @property
    def settings(self) -> Settings:
        """The options of the data source itself."""
        return self._settings

    def write(self, query: str, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Written:
        """Prepare a part of a batch; called by a task."""
        self._settings.arm(f"executor-{part}")
        batches = Batches(self._storage, query)
        if batches.decided(batch) is not None:
            for _ in rows:
                pass
            return Written(query, None)
        filled = (each for each in rows if each.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(query, None)
        self._make_sure(query, batch)
        index = batches.claim(batch, part=part, most=self._settings.attempts)
        # An attempt that was paused may hold an index that was removed since; it must not use it.
        if batches.decided(batch) is not None:
            return Written(query, None)
        context = self._writer_context(query, batch, part, index)
        with contextlib.closing(self._sink(_lane(batch)).open_writer(context)) as writer:
            writer.write(Batch(first.to_pylist()))
            for each in filled:
                writer.write(Batch(each.to_pylist()))
            prepared = writer.prepare(CheckpointId(batch))
            point("sink.after-prepare")
        work = prepared and Committable(context.uid, part, CheckpointId(batch), *prepared)
        return Written(query, work or None)

    def commit(self, query: str, batch: int, work: Sequence[Committable]) -> None:
        """Decide a batch, unless it is decided, and make it visible; called by the driver."""
        self._settings.arm("driver")
        batches, lane = Batches(self._storage, query), _lane(batch)
        sink = self._sink(lane)
        with contextlib.ExitStack() as stack:
            committer = stack.enter_context(contextlib.closing(self._committer(query, lane)))
            record = batches.decided(batch)
            if record is None:
                if isinstance(committer, SupportsClaim):
                    committer.claim()
                if isinstance(sink, SupportsPreCommit) and work:
                    sink.pre_commit(CheckpointId(batch), work)
                point("checkpoint.before-swap")
                record = batches.decide(batch, tuple(work))
                point("checkpoint.after-swap")
            whole = None
            if isinstance(sink, SupportsGlobalCommit):
                opened = sink.open_global_committer(self._committer_context(query, lane))
                whole = stack.enter_context(contextlib.closing(opened))
            accepted = self._settings.accept_loss
            settle(batches, record, committer, self._clock, whole=whole, accepted=accepted)

    def abort(self, query: str, batch: int) -> None:
        """Remove what was prepared for a batch that failed, unless it is decided; called by the driver."""
        if Batches(self._storage, query).decided(batch) is None:
            with contextlib.closing(self._committer(query, _lane(batch))) as committer:
                committer.abort_except(())

    def _make_sure(self, query: str, batch: int) -> None:
        """Check that the names of this query's work are claimed by it, once per process."""
        lane = _lane(batch)
        mark = (self._storage.url, query, lane)
        if mark not in _claimed:
            with contextlib.closing(self._committer(query, lane)) as committer:
                if isinstance(committer, SupportsClaim):
                    committer.claim()
            _claimed.add(mark)

    def _sink(self, lane: str) -> Sink:
        sink = self._rows.sink(self._rest, lane, self._columns)
        if not isinstance(sink, SupportsCommit):
            raise ConfigError(
                f"connector {self._settings.connector!r} does not commit in two phases with these options, so its "
                "output could not appear exactly once; choose others"
            )
        return sink

    def _committer(self, query: str, lane: str) -> Committer:
        sink: Any = self._sink(lane)
        committer: Committer = sink.open_committer(self._committer_context(query, lane))
        return committer

    def _committer_context(self, query: str, lane: str) -> CommitterContext:
        uid, lineage = OperatorUid(lane), LineageId(query)
        return CommitterContext(PipelineId(query), uid, lineage, self._clock, self._storage.url)

    def _writer_context(self, query: str, batch: int, part: int, index: int) -> WriterContext:
        return WriterContext(
            pipeline=PipelineId(query),
            uid=OperatorUid(_lane(batch)),
            subtask=Subtask("sink", part),
            parallelism=part + 1,
            lineage=LineageId(query),
            branch=Branch(0),
            attempt=str(index),
            restored=(),
            clock=self._clock,
            pool_index=index,
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer that Spark calls for each batch of a stream."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._made_of = dict(options), tuple(columns)
        Output(*self._made_of)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Prepare a part; runs in a task."""
        task = TaskContext.get()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        return Output(*self._made_of).write(query, int(batch), task.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Decide and commit; runs in the driver."""
        query, work = _together(messages)
        if query is not None:
            Output(*self._made_of).commit(query, batchId, work)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what is not decided; runs in the driver."""
        query, _ = _together(messages)
        if query is not None:
            Output(*self._made_of).abort(query, batchId)


class TableWriter(DataSourceArrowWriter):
    """The writer that Spark calls for a write that is not a stream.

    Raises:
        ConfigError: it has no option id.
    """

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._made_of = dict(options), tuple(columns)
        name = Output(*self._made_of).settings.id
        if name is None:
            raise ConfigError(
                "a write that is not a stream needs an id by which a repeated run is recognised; got none; expected "
                "one, such as .option('id', 'orders of 2026-11-01')"
            )
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Prepare a part; runs in a task."""
        return Output(*self._made_of).write(self._name, _ONLY, TaskContext.get().partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Decide and commit; runs in the driver."""
        Output(*self._made_of).commit(self._name, _ONLY, _together(messages)[1])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what is not decided; runs in the driver."""
        Output(*self._made_of).abort(self._name, _ONLY)


def _lane(batch: int) -> str:
    return str(batch % 2)


def _together(messages: list[WriterCommitMessage | None]) -> tuple[str | None, list[Committable]]:
    """The query and the work of the tasks that ended."""
    told = [message for message in messages if isinstance(message, Written)]
    return told[0].query if told else None, [message.work for message in told if message.work is not None]
