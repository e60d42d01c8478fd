"""Conformance kit for sinks: subclass a suite, provide a target, get every clause as a test.

`SinkSuite` is for every sink, `CommittingSinkSuite` adds the clauses of a sink with committables, `ExpiringSinkSuite` those
of a sink whose external system drops prepared output after some time. The oracle reads the external system without the
connector, up to an end marker that is written last, so it sees late duplicates.

Example:
    class TestFiles(CommittingSinkSuite):
        @pytest.fixture
        def target(self, tmp_path: Path) -> SinkTarget:
            return SinkTarget(FileSink(tmp_path, TextLines()), lambda: lines_of(tmp_path))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import cloudpickle
import pytest

from tidegate.clock import SYSTEM_CLOCK, ManualClock
from tidegate.connectors.spi import Sink
from tidegate.elements import Batch
from tidegate.errors import FencedError, TidegateError
from tidegate.ids import CheckpointId
from tidegate.testing.killed_process import Killed, Stage, sink_processes
from tidegate.testing.opened import closing_all
from tidegate.testing.records import same
from tidegate.testing.sink_rig import VISIBLE, SinkRig as SinkRig, SinkTarget as SinkTarget
from tidegate.twophase.spi import (
    CommitAnswer,
    Committable,
    Retry,
    SinkWriter,
    SupportsExpiry,
)

__all__ = [
    "CommittingSinkSuite",
    "ExpiringSinkSuite",
    "RefusedCommitClauses",
    "SinkRig",
    "SinkSuite",
    "SinkTarget",
]


class SinkSuite(ABC):
    """The clauses of every sink. Subclass it as `Test...` and override `target` as a fixture."""

    @abstractmethod
    def target(self) -> Any:
        """The sink and its oracle, before any write; a pytest fixture."""

    @pytest.fixture(autouse=True)
    def _nothing_is_left_open(self, target: SinkTarget) -> Iterator[None]:
        """Checks that no thread of a writer or committer runs after a clause."""
        with closing_all():
            yield

    def test_every_record_is_visible_once_its_epoch_is_over(self, target: SinkTarget) -> None:
        """Without failures every record is visible once, with any delivery guarantee."""
        _write_epoch(target, target.sink, target.records)
        same(target.read_committed(), target.records)

    def test_the_description_survives_pickling(self, target: SinkTarget) -> None:
        """A sink is sent to other processes: an unpickled copy writes the same."""
        _write_epoch(target, cloudpickle.loads(cloudpickle.dumps(target.sink)), target.records)
        same(target.read_committed(), target.records)

    def test_an_empty_batch_writes_nothing(self, target: SinkTarget) -> None:
        """A batch without records has no effect."""
        writer = SinkRig(target).writer()
        writer.write(Batch([]))
        assert writer.prepare(CheckpointId(1)) is None
        writer.close()
        same(target.read_committed(), [])


class CommitClauses:
    """Clauses of commits."""

    def test_nothing_is_visible_before_the_commit(self, target: SinkTarget) -> None:
        """Prepared output is invisible until it is committed."""
        SinkRig(target).epoch(target.records, 1)
        assert target.read_committed() == []

    def test_a_commit_makes_every_record_visible_once(self, target: SinkTarget) -> None:
        """Exactly the records of the committed epoch are visible, once."""
        rig = SinkRig(target)
        rig.commits(rig.epoch(target.records, 1))
        rig.see(target.records)

    def test_a_second_commit_answers_already_committed(self, target: SinkTarget) -> None:
        """Committing again returns "already committed" and changes nothing, any number of times."""
        rig = SinkRig(target)
        work = rig.epoch(target.records, 1)
        rig.commit(work)
        for _ in range(2):
            rig.commits(work, already=True, when="it was committed before")
        rig.see(target.records)

    def test_an_interrupted_commit_of_several_is_finished(self, target: SinkTarget) -> None:
        """After a crash between two committables, committing both commits the second."""
        rig = SinkRig(target)
        first = rig.epoch(target.records[:5], 1, subtask=0)
        second = rig.epoch(target.records[5:], 1, subtask=1)
        rig.commit(first)
        assert rig.commit(first, second) == [CommitAnswer.ALREADY_COMMITTED, CommitAnswer.COMMITTED]
        rig.see(target.records)

    def test_an_epoch_without_records_prepares_nothing(self, target: SinkTarget) -> None:
        """An epoch without records has no committable, and no committable is returned twice."""
        rig = SinkRig(target)
        writer = rig.writer()
        assert rig.prepare(writer, 1) is None
        writer.write(Batch(list(target.records)))
        assert rig.prepare(writer, 2) is not None
        assert rig.prepare(writer, 3) is None
        writer.close()

    def test_epochs_of_one_writer_are_committed_apart(self, target: SinkTarget) -> None:
        """Committing an epoch does not show the next one, even if that is prepared."""
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
        same(target.read_committed(), target.records[:5])
        rig.commit(second)
        rig.see(target.records)

    def test_two_attempts_of_an_epoch_do_not_clash(self, target: SinkTarget) -> None:
        """Of two executions of an epoch only the committed one is visible."""
        rig = SinkRig(target)
        lost = rig.epoch(target.records, 1, attempt="1")
        won = rig.epoch(target.records, 1, attempt="2")
        assert lost.payload != won.payload
        rig.commits(won)
        rig.abort_except()
        rig.see(target.records)

    def test_a_branch_writes_in_addition_to_the_committed_history(self, target: SinkTarget) -> None:
        """An epoch that a branch writes again is visible in addition to the committed one with the same checkpoint id."""
        rig = SinkRig(target)
        rig.commit(rig.epoch(target.records[:4], 1))
        rig.commit(rig.epoch(target.records[4:8], 2))
        branch = replace(rig, branch=1)
        branch.commits(branch.epoch(target.records[8:], 2))
        rig.see(target.records)

    def test_fewer_writers_continue_after_a_rescale(self, target: SinkTarget) -> None:
        """After a rescale the output of all earlier writers can be committed while a remaining writer continues."""
        many = SinkRig(target, parallelism=3)
        parts = [many.epoch(target.records[3 * n : 3 * n + 3], 1, subtask=n) for n in range(3)]
        one = replace(many, parallelism=1)
        one.commits(*parts)
        one.commits(one.epoch(target.records[9:], 2))
        one.see(target.records)


class RefusedCommitClauses:
    """Clauses of a sink whose external system can refuse a commit; its target has `refusing`."""

    def test_a_refused_commit_gives_its_reason_and_can_be_retried(self, target: SinkTarget) -> None:
        """A refused commit returns `Retry` with the reason and changes nothing; a later commit succeeds."""
        assert target.refusing is not None, "the target cannot refuse commits; set SinkTarget.refusing"
        rig = SinkRig(target)
        work = rig.epoch(target.records, 1)
        with target.refusing():
            for _ in range(2):
                (answer,) = rig.commit(work)
                assert isinstance(answer, Retry)
        assert target.read_committed() == []
        rig.commits(work)
        rig.see(target.records)


class AbortClauses:
    """Clauses of aborts."""

    def test_abort_removes_output_that_is_not_kept(self, target: SinkTarget) -> None:
        """Open and prepared output that is not kept is removed: no later commit makes it visible."""
        rig = SinkRig(target)
        prepared = rig.epoch(target.records[:5], 1)
        writer = rig.writer(subtask=1)
        writer.write(Batch(list(target.records[5:])))
        assert rig.abort_except() >= 1
        assert rig.commit(prepared)[0] not in VISIBLE
        assert rig.abort_except() == 0
        writer.close()
        rig.see([])

    def test_abort_removes_output_of_removed_writers(self, target: SinkTarget) -> None:
        """After a rescale to one writer the prepared and open output of the others is removed too."""
        prepared = SinkRig(target, parallelism=3).epoch(target.records[:5], 1, subtask=2)
        writer = SinkRig(target, parallelism=3).writer(subtask=1)
        writer.write(Batch(list(target.records[5:])))
        one = SinkRig(target, parallelism=1)
        assert one.abort_except() >= 1
        assert one.commit(prepared)[0] not in VISIBLE
        writer.close()
        one.commits(one.epoch(target.records, 1, attempt="2"))
        one.see(target.records)

    def test_an_abort_of_a_killed_process_is_complete(self, target: SinkTarget) -> None:
        """An abort is complete when it returns, even if the process dies right after."""
        work = _killed("abort", target).prepared
        rig = SinkRig(target)
        assert rig.commit(work)[0] not in VISIBLE
        rig.abort_except()
        rig.see([])

    def test_abort_keeps_what_is_named(self, target: SinkTarget) -> None:
        """Output that is kept can be committed afterwards."""
        rig = SinkRig(target)
        kept = rig.epoch(target.records[:5], 1, subtask=0)
        rig.epoch(target.records[5:], 1, subtask=1)
        assert rig.abort_except(kept) >= 1
        rig.commits(kept)
        rig.see(target.records[:5])

    def test_abort_removes_only_its_own(self, target: SinkTarget) -> None:
        """Output of other pipelines and operators stays, even if their names are similar."""
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
    """Clauses about processes that are killed with `kill -9`."""

    kills: ClassVar[int] = 40
    """Maximum number of kill points inside a commit; if a commit has more steps, they are spread evenly."""

    def test_another_process_commits_what_a_killed_one_prepared(self, target: SinkTarget) -> None:
        """The payload is enough to commit after the writer's process has died."""
        rig = SinkRig(target)
        work = _killed("prepare", target).prepared
        assert target.read_committed() == []
        rig.abort_except(work)
        rig.commits(work)
        rig.see(target.records)

    def test_a_process_killed_before_its_first_record_blocks_no_writer(self, target: SinkTarget) -> None:
        """Opening a writer creates nothing that is visible or blocks another writer."""
        rig = SinkRig(target)
        _killed("open", target)
        rig.abort_except()
        assert target.read_committed() == []
        rig.commits(rig.epoch(target.records, 1, attempt="2"))
        rig.see(target.records)

    def test_a_process_killed_while_writing_leaves_nothing_visible(self, target: SinkTarget) -> None:
        """Unprepared output stays invisible; writing it again makes it visible once."""
        rig = SinkRig(target)
        _killed("write", target)
        assert target.read_committed() == []
        rig.abort_except()
        rig.commits(rig.epoch(target.records, 1, attempt="2"))
        rig.see(target.records)

    def test_a_commit_whose_process_was_killed_is_recognised(self, target: SinkTarget) -> None:
        """If a process dies right after its commit, another process detects the commit."""
        work = _killed("commit", target).prepared
        rig = SinkRig(target)
        rig.commits(work, already=True, when="the process was killed right after its commit")
        rig.see(target.records)

    def test_a_process_killed_inside_a_commit_neither_loses_nor_doubles(self, target: SinkTarget) -> None:
        """A process is killed before any step of its commit; committing again makes every record visible once."""
        rig, seen = SinkRig(target), list(target.records)
        with sink_processes(target) as processes:
            whole = processes.killed("commit", 1)
            rig.commits(whole.prepared, already=True, when="the process was killed right after its commit")
            for number, step in enumerate(_spread(len(whole.steps), self.kills), 2):
                died = (
                    f"killed before step {step + 1} of {len(whole.steps)} of a commit ({whole.steps[step]})"
                )
                rig.settles(processes.killed("commit", number, step).prepared, died)
                seen += target.records
                same(target.read_committed(), seen, f"{died} and committed again")
        rig.see(seen)


class OwnerClauses:
    """Clauses of a sink whose pipeline gets another owner."""

    def test_an_owner_replaced_before_it_acts_does_not_affect_the_new_one(self, target: SinkTarget) -> None:
        """A process may be suspended right after an ownership check. It then removes and fences only what it listed before
        the check, and nothing that the new owner has prepared since."""
        prepared: list[Committable] = []

        def replaced() -> None:
            """Pass once more; later checks fail."""
            if prepared:
                raise FencedError("the pipeline has a newer owner")
            second = SinkRig(target, term=2)
            second.take_over()
            prepared.append(second.epoch(target.records, 2, attempt="2"))

        first = SinkRig(target, check_owner=replaced)
        first.epoch(target.records[:5], 1)
        with suppress(FencedError):
            first.take_over()
        if not prepared:  # it lists and acts in one call
            replaced()
            first.take_over()
        assert SinkRig(target, term=2).commit(*prepared) == [CommitAnswer.COMMITTED]
        first.see(target.records)

    def test_a_replaced_owner_that_checks_removes_nothing(self, target: SinkTarget) -> None:
        """An error of `check_owner` ends the call before anything is removed."""
        work = SinkRig(target).epoch(target.records, 1)

        def fenced() -> None:
            raise FencedError("the pipeline has a newer owner")

        with suppress(FencedError):
            SinkRig(target, term=0, check_owner=fenced).take_over()
        assert SinkRig(target).commit(work) == [CommitAnswer.COMMITTED]
        SinkRig(target).see(target.records)

    def test_a_new_owner_fences_idle_writers_of_the_old_one(self, target: SinkTarget) -> None:
        """If the committer supports fencing: an idle writer of the old owner can no longer prepare anything."""
        idle = SinkRig(target).writer(attempt="1")
        second = SinkRig(target, term=2)
        if second.take_over():
            with pytest.raises(TidegateError):
                _write_and_prepare(idle, target.records[0])
        idle.close()
        work = second.epoch(target.records, 3, attempt="2")
        second.commits(work)
        second.see(target.records)


class CommittingSinkSuite(CommitClauses, AbortClauses, OwnerClauses, CrashClauses, SinkSuite):
    """All clauses of a sink with committables: its output appears exactly once."""


class ExpiringSinkSuite(CommittingSinkSuite):
    """All clauses of a sink with committables that expire in the external system."""

    def test_prepared_work_expires_by_the_age_of_its_first_record(self, target: SinkTarget) -> None:
        """The remaining time of prepared output counts from its first record, separately for each epoch."""
        rig, clock, left = SinkRig(target), ManualClock(SYSTEM_CLOCK.now_ms()), list[int]()
        writer = rig.writer(clock=clock)
        assert isinstance(writer, SupportsExpiry), "the writer does not implement SupportsExpiry"
        for checkpoint, (record, waits_ms) in enumerate(zip(target.records, (0, 700, 0), strict=False), 1):
            writer.write(Batch([record]))
            clock.advance(waits_ms)
            assert rig.prepare(writer, checkpoint) is not None
            left.append(writer.expires_in_ms())
        writer.close()
        assert min(left) > 0
        assert left[1] <= left[0] - 700
        assert left[2] > left[1]


def _write_epoch(target: SinkTarget, sink: Sink, records: Sequence[Any]) -> None:
    rig = SinkRig(replace(target, sink=sink))
    writer = rig.writer()
    writer.write(Batch(list(records)))
    work = rig.prepare(writer, 1)
    writer.close()
    if work is not None:
        rig.commits(work)


def _spread(steps: int, kills: int) -> list[int]:
    return list(range(steps)) if steps <= kills else [steps * kill // kills for kill in range(kills)]


def _killed(stage: Stage, target: SinkTarget) -> Killed:
    with sink_processes(target) as processes:
        return processes.killed(stage)


def _write_and_prepare(writer: SinkWriter, record: Any) -> None:
    writer.write(Batch([record]))
    writer.prepare(CheckpointId(2))
