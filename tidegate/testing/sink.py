"""The conformance kit for sinks: subclass a suite, give it a target, get every clause as a test.

`SinkSuite` is for every sink, `CommittingSinkSuite` adds what a sink with committables owes. The oracle reads the
external system without the connector, and on to an end marker that is written last, so late duplicates are seen.

Example:
    class TestFiles(CommittingSinkSuite):
        @pytest.fixture
        def target(self, tmp_path: Path) -> SinkTarget:
            return SinkTarget(FileSink(tmp_path, TextLines()), lambda: lines_of(tmp_path))
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import cloudpickle
import msgspec

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.spi import Sink, SupportsCommit
from tidegate.elements import Batch
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, Subtask
from tidegate.twophase.spi import (
    CommitAnswer,
    Committable,
    Committer,
    CommitterContext,
    SinkWriter,
    WriterContext,
)

__all__ = ["CommittingSinkSuite", "SinkRig", "SinkSuite", "SinkTarget"]

VISIBLE = (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED)
LAST = 1_000
"""The checkpoint whose epoch holds the end marker."""

Stage = Literal["open", "write", "prepare", "commit", "abort"]


@dataclass(frozen=True)
class SinkTarget:
    """What is tested: a sink, and how to see what others see of its output."""

    sink: Sink
    read_committed: Callable[[], list[Any]]
    """Everything a consumer sees now, duplicates included, read without the connector."""
    records: Sequence[Any] = tuple(f"record {number}" for number in range(12))
    """At least twelve different records the sink can hold."""
    end_marker: Any = "end marker"
    """One more, different from all of them."""


@dataclass(frozen=True)
class SinkRig:
    """Uses a sink as a job does, under the names of one pipeline and operator."""

    target: SinkTarget
    pipeline: str = "orders"
    uid: str = "sink"

    branch: int = 0
    parallelism: int = 4

    def writer(self, subtask: int = 0, attempt: str = "1") -> SinkWriter:
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
            clock=SYSTEM_CLOCK,
        )
        return self.target.sink.open_writer(context)

    def prepare(self, writer: SinkWriter, checkpoint: int, subtask: int = 0) -> Committable | None:
        """Prepare what a writer holds; the committable goes through bytes, as in a checkpoint."""
        prepared = writer.prepare(CheckpointId(checkpoint))
        if prepared is None:
            return None
        work = Committable(OperatorUid(self.uid), subtask, CheckpointId(checkpoint), *prepared)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(work), type=Committable)

    def epoch(
        self, records: Sequence[Any], checkpoint: int, subtask: int = 0, attempt: str = "1"
    ) -> Committable:
        """Write and prepare records by a writer of their own, in two batches."""
        writer = self.writer(subtask, attempt)
        for part in (records[: len(records) // 2], records[len(records) // 2 :]):
            writer.write(Batch(list(part)))
        work = self.prepare(writer, checkpoint, subtask)
        writer.close()
        assert work is not None, "records were written but nothing was prepared"
        assert work.records == len(records)
        return work

    def commit(self, *work: Committable) -> list[CommitAnswer]:
        """Commit by a new committer."""
        with self.committer() as committer:
            return committer.commit(work)

    def abort_except(self, *keep: Committable) -> int:
        """Abort by a new committer."""
        with self.committer() as committer:
            return committer.abort_except(keep)

    def see(self, expected: Sequence[Any]) -> None:
        """Write the end marker, then see exactly `expected` and the marker, in any order."""
        final = replace(self, uid="end of test")
        final.commit(final.epoch([self.target.end_marker], LAST))
        _same(self.target.read_committed(), [*expected, self.target.end_marker])

    @contextmanager
    def committer(self) -> Iterator[Committer]:
        """A new committer."""
        sink = self.target.sink
        assert isinstance(sink, SupportsCommit), "the sink has no committer; use SinkSuite"
        context = CommitterContext(
            PipelineId(self.pipeline), OperatorUid(self.uid), LineageId("1f"), SYSTEM_CLOCK
        )
        committer = sink.open_committer(context)
        yield committer
        committer.close()


class SinkSuite(ABC):
    """Every clause any sink owes. Subclass it as `Test...` and override `target` as a fixture."""

    @abstractmethod
    def target(self) -> Any:
        """The sink and its oracle, with nothing written yet; a pytest fixture."""

    def test_every_record_is_visible_once_its_epoch_is_over(self, target: SinkTarget) -> None:
        """Without failures every record is seen once, whatever the delivery."""
        _write_epoch(target, target.sink, target.records)
        _same(target.read_committed(), target.records)

    def test_the_description_survives_pickling(self, target: SinkTarget) -> None:
        """A sink is sent to other processes: its copy writes the same."""
        _write_epoch(target, cloudpickle.loads(cloudpickle.dumps(target.sink)), target.records)
        _same(target.read_committed(), target.records)

    def test_an_empty_batch_writes_nothing(self, target: SinkTarget) -> None:
        """A batch without records leaves no trace."""
        writer = SinkRig(target).writer()
        writer.write(Batch([]))
        assert writer.prepare(CheckpointId(1)) is None
        writer.close()
        _same(target.read_committed(), [])


class CommitClauses:
    """What commit owes."""

    def test_nothing_is_visible_before_the_commit(self, target: SinkTarget) -> None:
        """Prepared work is invisible until it is committed."""
        SinkRig(target).epoch(target.records, 1)
        assert target.read_committed() == []

    def test_a_commit_makes_every_record_visible_once(self, target: SinkTarget) -> None:
        """A committed epoch is seen once, and nothing else."""
        rig = SinkRig(target)
        assert rig.commit(rig.epoch(target.records, 1)) == [CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_a_second_commit_answers_already_committed(self, target: SinkTarget) -> None:
        """Committing again proves the first commit and changes nothing, however often."""
        rig = SinkRig(target)
        work = rig.epoch(target.records, 1)
        rig.commit(work)
        assert [rig.commit(work) for _ in range(2)] == [[CommitAnswer.ALREADY_COMMITTED]] * 2
        rig.see(target.records)

    def test_an_interrupted_commit_of_several_is_finished(self, target: SinkTarget) -> None:
        """After a crash between two pieces, committing all of them commits the rest."""
        rig = SinkRig(target)
        first = rig.epoch(target.records[:5], 1, subtask=0)
        second = rig.epoch(target.records[5:], 1, subtask=1)
        rig.commit(first)
        assert rig.commit(first, second) == [CommitAnswer.ALREADY_COMMITTED, CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_an_epoch_without_records_prepares_nothing(self, target: SinkTarget) -> None:
        """There is no committable without records, and none twice."""
        rig = SinkRig(target)
        writer = rig.writer()
        assert rig.prepare(writer, 1) is None
        writer.write(Batch(list(target.records)))
        assert rig.prepare(writer, 2) is not None
        assert rig.prepare(writer, 3) is None
        writer.close()

    def test_epochs_of_one_writer_are_committed_apart(self, target: SinkTarget) -> None:
        """Committing an epoch shows nothing of the next, which is prepared already."""
        rig = SinkRig(target)
        writer = rig.writer()
        writer.write(Batch(list(target.records[:5])))
        first = rig.prepare(writer, 1)
        writer.write(Batch(list(target.records[5:])))
        second = rig.prepare(writer, 2)
        writer.close()
        assert first is not None
        assert second is not None
        rig.commit(first)
        _same(target.read_committed(), target.records[:5])
        rig.commit(second)
        rig.see(target.records)

    def test_two_attempts_of_an_epoch_do_not_clash(self, target: SinkTarget) -> None:
        """Of two executions of an epoch only the one that is committed is seen."""
        rig = SinkRig(target)
        lost = rig.epoch(target.records, 1, attempt="1")
        won = rig.epoch(target.records, 1, attempt="2")
        assert lost.payload != won.payload
        assert rig.commit(won) == [CommitAnswer.COMMITTED]
        rig.abort_except()
        rig.see(target.records)

    def test_a_branch_writes_beside_what_the_history_it_left_has_committed(self, target: SinkTarget) -> None:
        """An epoch that is written again by a branch is visible beside the one that was committed under its number."""
        rig = SinkRig(target)
        rig.commit(rig.epoch(target.records[:4], 1))
        rig.commit(rig.epoch(target.records[4:8], 2))
        branch = replace(rig, branch=1)
        assert branch.commit(branch.epoch(target.records[8:], 2)) == [CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_fewer_writers_go_on_where_more_have_stopped(self, target: SinkTarget) -> None:
        """After a rescale the work of all earlier writers is committed, and a writer that is left goes on beside it."""
        many = SinkRig(target, parallelism=3)
        parts = [many.epoch(target.records[3 * n : 3 * n + 3], 1, subtask=n) for n in range(3)]
        one = replace(many, parallelism=1)
        assert one.commit(*parts) == [CommitAnswer.COMMITTED] * 3
        assert one.commit(one.epoch(target.records[9:], 2)) == [CommitAnswer.COMMITTED]
        one.see(target.records)


class AbortClauses:
    """What removing leftovers owes."""

    def test_abort_removes_what_nobody_keeps(self, target: SinkTarget) -> None:
        """Open and prepared work that is not kept is gone: no commit shows it any more."""
        rig = SinkRig(target)
        prepared = rig.epoch(target.records[:5], 1)
        writer = rig.writer(subtask=1)
        writer.write(Batch(list(target.records[5:])))
        assert rig.abort_except() >= 1
        assert rig.commit(prepared)[0] not in VISIBLE
        assert rig.abort_except() == 0
        writer.close()
        rig.see([])

    def test_abort_removes_the_work_of_writers_that_are_no_more(self, target: SinkTarget) -> None:
        """After a rescale to one writer the prepared and open work of the others is removed as well."""
        prepared = SinkRig(target, parallelism=3).epoch(target.records[:5], 1, subtask=2)
        writer = SinkRig(target, parallelism=3).writer(subtask=1)
        writer.write(Batch(list(target.records[5:])))
        one = SinkRig(target, parallelism=1)
        assert one.abort_except() >= 1
        assert one.commit(prepared)[0] not in VISIBLE
        writer.close()
        assert one.commit(one.epoch(target.records, 1, attempt="2")) == [CommitAnswer.COMMITTED]
        one.see(target.records)

    def test_what_a_killed_process_aborted_is_gone(self, target: SinkTarget) -> None:
        """An abort is over when it returns: nothing of it is left to a process that may die."""
        work = _killed_after("abort", target)
        rig = SinkRig(target)
        assert rig.commit(work)[0] not in VISIBLE
        rig.abort_except()
        rig.see([])

    def test_abort_keeps_what_is_named(self, target: SinkTarget) -> None:
        """Work that is kept can be committed afterwards."""
        rig = SinkRig(target)
        kept = rig.epoch(target.records[:5], 1, subtask=0)
        rig.epoch(target.records[5:], 1, subtask=1)
        assert rig.abort_except(kept) >= 1
        assert rig.commit(kept) == [CommitAnswer.COMMITTED]
        rig.see(target.records[:5])

    def test_abort_removes_only_its_own(self, target: SinkTarget) -> None:
        """Work of other pipelines and operators stays, however similar their names."""
        names = [
            ("orders2", "sink"),
            ("orders", "sink2"),
            ("order", "s"),
            ("orders/sink", "sink"),
            ("x", "sink"),
        ]
        others = [SinkRig(target, pipeline, uid) for pipeline, uid in names]
        works = [rig.epoch([record], 1) for rig, record in zip(others, target.records, strict=False)]
        SinkRig(target).abort_except()
        answers = [rig.commit(work)[0] for rig, work in zip(others, works, strict=True)]
        assert answers == [CommitAnswer.COMMITTED] * len(others)
        SinkRig(target).see(target.records[: len(others)])

    def test_abort_never_touches_what_is_visible(self, target: SinkTarget) -> None:
        """Committed records stay, whether they are named or not."""
        rig = SinkRig(target)
        rig.commit(rig.epoch(target.records, 1))
        rig.abort_except()
        rig.see(target.records)


class CrashClauses:
    """What holds when a process is killed with `kill -9`."""

    def test_another_process_commits_what_a_killed_one_prepared(self, target: SinkTarget) -> None:
        """The payload alone is enough to commit once the writer's process is dead."""
        rig = SinkRig(target)
        work = _killed_after("prepare", target)
        assert target.read_committed() == []
        rig.abort_except(work)
        assert rig.commit(work) == [CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_a_process_killed_before_its_first_record_disturbs_nobody(self, target: SinkTarget) -> None:
        """Opening a writer leaves nothing behind that is visible or in the way of the next one."""
        rig = SinkRig(target)
        _killed_after("open", target)
        rig.abort_except()
        assert target.read_committed() == []
        assert rig.commit(rig.epoch(target.records, 1, attempt="2")) == [CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_a_process_killed_while_writing_leaves_nothing_visible(self, target: SinkTarget) -> None:
        """What was not prepared is invisible and stays so; writing it again shows it once."""
        rig = SinkRig(target)
        _killed_after("write", target)
        assert target.read_committed() == []
        rig.abort_except()
        assert rig.commit(rig.epoch(target.records, 1, attempt="2")) == [CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_a_commit_whose_process_was_killed_is_recognised(self, target: SinkTarget) -> None:
        """If the process dies right after its commit, another one finds out that it was done."""
        work = _killed_after("commit", target)
        rig = SinkRig(target)
        assert rig.commit(work) == [CommitAnswer.ALREADY_COMMITTED]
        rig.see(target.records)


class CommittingSinkSuite(CommitClauses, AbortClauses, CrashClauses, SinkSuite):
    """Every clause a sink with committables owes: its output appears exactly once."""


def run_victim() -> None:
    """What the process that is going to be killed does: work up to a stage, report it, wait for the end."""
    rig, stage, records = cloudpickle.loads(base64.b64decode(sys.stdin.readline()))
    writer = rig.writer()
    if stage != "open":
        writer.write(Batch(list(records)))
    work = (
        rig.prepare(writer, 1)
        if stage not in ("open", "write")
        else Committable(OperatorUid(""), 0, CheckpointId(1), b"", "", 0)
    )
    if stage == "commit":
        rig.commit(work)
    elif stage == "abort":
        # Its committer is never closed: what it has not done by now is not done.
        with rig.committer() as committer:
            committer.abort_except(())
            _report_and_wait(work)
    _report_and_wait(work)


def _report_and_wait(work: Committable | None) -> None:
    sys.stdout.write(base64.b64encode(msgspec.msgpack.encode(work)).decode() + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def _killed_after(stage: Stage, target: SinkTarget) -> Committable:
    rig = SinkRig(replace(target, read_committed=list))
    order = base64.b64encode(_portable((rig, stage, tuple(target.records)))).decode()
    program = "from tidegate.testing.sink import run_victim; run_victim()"
    victim = subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with victim:
        assert victim.stdin is not None
        assert victim.stdout is not None
        victim.stdin.write(order + "\n")
        victim.stdin.flush()
        report = victim.stdout.readline()
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    assert report, f"the writer's process ended before it was killed, at stage {stage}"
    assert victim.returncode == -signal.SIGKILL
    return msgspec.msgpack.decode(base64.b64decode(report), type=Committable)


def _portable(order: tuple[SinkRig, Stage, tuple[Any, ...]]) -> bytes:
    """Pickle with the sink's class by value if another process may not be able to import its module."""
    module = sys.modules[type(order[0].target.sink).__module__]
    if module.__name__.startswith("tidegate."):
        data: bytes = cloudpickle.dumps(order)
        return data
    cloudpickle.register_pickle_by_value(module)
    try:
        data = cloudpickle.dumps(order)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return data


def _write_epoch(target: SinkTarget, sink: Sink, records: Sequence[Any]) -> None:
    rig = SinkRig(replace(target, sink=sink))
    writer = rig.writer()
    writer.write(Batch(list(records)))
    work = rig.prepare(writer, 1)
    writer.close()
    if work is not None:
        assert rig.commit(work) == [CommitAnswer.COMMITTED]


def _same(values: Sequence[Any], expected: Sequence[Any]) -> None:
    """Equal as multisets, types included."""
    found, wanted = (Counter(f"{type(v).__name__} {v!r}" for v in some) for some in (values, expected))
    assert found == wanted, f"lost: {dict(wanted - found)}; too many: {dict(found - wanted)}"
