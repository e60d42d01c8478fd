"""Test rig of the sink kit: `SinkRig` uses a sink as a job does; `SinkTarget` reads its output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tidegate.arrow_rows import ArrowRows
from tidegate.clock import SYSTEM_CLOCK, Clock
from tidegate.connectors.spi import Sink, SupportsCommit
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, FencingTerm, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.testing.records import same
from tidegate.twophase.spi import (
    Answer,
    CommitAnswer,
    Committable,
    Committer,
    CommitterContext,
    Retry,
    SinkWriter,
    SupportsArrow,
    SupportsFencing,
    WriterContext,
)

__all__ = ["LAST", "VISIBLE", "SinkRig", "SinkTarget"]

_RETRIES = 100
_RETRY_S = 0.1

VISIBLE = (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED)
LAST = 1_000
"""The checkpoint whose epoch holds the end marker."""


@dataclass(frozen=True)
class SinkTarget:
    """The sink under test, and an oracle that reads its output."""

    sink: Sink
    read_committed: Callable[[], list[Any]]
    """All records that a consumer sees now, including duplicates, read without the connector."""
    records: Sequence[Any] = tuple(f"record {number}" for number in range(12))
    """At least twelve different records that the sink can write."""
    end_marker: Any = "end marker"
    """Another record, different from all of these."""
    refusing: Callable[[], AbstractContextManager[object]] | None = None
    """A context manager in which the external system refuses commits; for `RefusedCommitClauses`."""


@dataclass(frozen=True)
class SinkRig:
    """Uses a sink as a job does, for one pipeline and operator."""

    target: SinkTarget
    pipeline: str = "orders"
    uid: str = "sink"

    branch: int = 0
    parallelism: int = 4
    home: str = ""
    """The checkpoint storage of the pipeline; without one nothing is claimed."""
    term: int = 1
    """The term of the owner."""
    check_owner: Callable[[], None] = lambda: None

    def writer(self, subtask: int = 0, attempt: str = "1", clock: Clock = SYSTEM_CLOCK) -> SinkWriter:
        """Open a writer."""
        context = WriterContext(
            pipeline=PipelineId(self.pipeline),
            uid=OperatorUid(self.uid),
            subtask=Subtask("sink", subtask),
            parallelism=self.parallelism,
            lineage=LineageId("1f"),
            branch=Branch(self.branch),
            attempt=attempt,
            restored=(),
            clock=clock,
            term=FencingTerm(self.term),
        )
        return self.target.sink.open_writer(context)

    def prepare(self, writer: SinkWriter, checkpoint: int, subtask: int = 0) -> Committable | None:
        """Prepare a writer's records; the committable is encoded and decoded, as in a checkpoint."""
        prepared = writer.prepare(CheckpointId(checkpoint))
        if prepared is None:
            return None
        work = Committable(OperatorUid(self.uid), subtask, CheckpointId(checkpoint), *prepared)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(work), type=Committable)

    def epoch(
        self, records: Sequence[Any], checkpoint: int, subtask: int = 0, attempt: str = "1"
    ) -> Committable:
        """Write and prepare records with a new writer, in two batches, one of them as Arrow if it takes that."""
        writer = self.writer(subtask, attempt)
        writer.write(Batch(list(records[: len(records) // 2])))
        _write_arrow(writer, list(records[len(records) // 2 :]))
        work = self.prepare(writer, checkpoint, subtask)
        writer.close()
        assert work is not None, "records were written but nothing was prepared"
        assert work.records == len(records)
        return work

    def commit(self, *work: Committable) -> list[Answer]:
        """Commit with a new committer; checks that a refusal has a reason."""
        with self.committer() as committer:
            answers = list(committer.commit(work))
        silent = [each for each in answers if isinstance(each, Retry) and not each.reason.strip()]
        assert not silent, "a commit returned Retry without a reason; give Retry a reason"
        return answers

    def commits(self, *work: Committable, already: bool = False, when: str = "") -> None:
        """Commit with a new committer, which must return committed, or with `already`, already committed."""
        expected = CommitAnswer.ALREADY_COMMITTED if already else CommitAnswer.COMMITTED
        for each, answer in zip(work, self.commit(*work), strict=True):
            assert answer is expected, _wrong(each, answer, expected.value, when)

    def settles(self, work: Committable, when: str = "") -> None:
        """Commit as a restart does, until the answer is not `Retry`; the output must be visible then."""
        answer: Answer = Retry("never tried")
        for _ in range(_RETRIES):
            (answer,) = self.commit(work)
            if not isinstance(answer, Retry):
                break
            SYSTEM_CLOCK.sleep(_RETRY_S)
        assert answer in VISIBLE, _wrong(work, answer, "committed or already committed", when)

    def abort_except(self, *keep: Committable) -> int:
        """Abort with a new committer."""
        with self.committer() as committer:
            return committer.abort_except(keep)

    def take_over(self) -> bool:
        """Abort leftovers and fence earlier writers, as a start does; returns whether the committer supports fencing."""
        with self.committer() as committer:
            committer.abort_except(())
            if isinstance(committer, SupportsFencing):
                committer.fence()
            return isinstance(committer, SupportsFencing)

    def see(self, expected: Sequence[Any]) -> None:
        """Write the end marker, then check that exactly `expected` and the marker are visible, in any order."""
        final = replace(self, uid="end of test")
        final.commit(final.epoch([self.target.end_marker], LAST))
        same(self.target.read_committed(), [*expected, self.target.end_marker])

    @contextmanager
    def committer(self) -> Iterator[Committer]:
        """A new committer."""
        sink = self.target.sink
        assert isinstance(sink, SupportsCommit), "the sink has no committer; use SinkSuite"
        context = CommitterContext(
            PipelineId(self.pipeline),
            OperatorUid(self.uid),
            LineageId("1f"),
            SYSTEM_CLOCK,
            self.home,
            FencingTerm(self.term),
            self.check_owner,
        )
        with closing(sink.open_committer(context)) as committer:
            yield committer


def _write_arrow(writer: SinkWriter, records: list[Any]) -> None:
    """Write records as columns, unless they have none, or the writer takes rows only."""
    if not isinstance(writer, SupportsArrow) or not all(isinstance(record, dict) for record in records):
        writer.write(Batch(records))
        return
    import pyarrow as pa

    writer.write_arrow(Batch(ArrowRows(pa.RecordBatch.from_pylist(records))))


def _wrong(work: Committable, answer: Answer, expected: str, when: str) -> str:
    got = f"retry: {answer.reason}" if isinstance(answer, Retry) else answer.value
    return (
        f"{when or 'a commit'}: {work.records} records of checkpoint {work.checkpoint} ({work.describe}) were answered as "
        f"{got!r}; expected {expected!r}"
    )
