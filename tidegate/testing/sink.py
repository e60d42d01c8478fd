"""Conformance kit for sinks: subclass a suite, provide a target, get every clause as a test.

`SinkSuite` is for every sink, `CommittingSinkSuite` adds what a sink with committables owes, `ExpiringSinkSuite` what is
owed besides if the external system drops prepared work after some time. The oracle reads the external system without
the connector, and on to an end marker that is written last, so late duplicates are seen.

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
from tidegate.testing.opened import closing_all
from tidegate.testing.records import same
from tidegate.testing.sink_rig import VISIBLE, SinkRig as SinkRig, SinkTarget as SinkTarget
from tidegate.testing.victim import Killed, Stage, victims
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
        """The sink and its oracle, with nothing written yet; a pytest fixture."""

    @pytest.fixture(autouse=True)
    def _nothing_is_left_open(self, target: SinkTarget) -> Iterator[None]:
        """Checks that no thread of a writer or committer runs after a clause."""
        with closing_all():
            yield

    def test_every_record_is_visible_once_its_epoch_is_over(self, target: SinkTarget) -> None:
        """Without failures every record is seen once, with any delivery guarantee."""
        _write_epoch(target, target.sink, target.records)
        same(target.read_committed(), target.records)

    def test_the_description_survives_pickling(self, target: SinkTarget) -> None:
        """A sink is sent to other processes: its copy writes the same."""
        _write_epoch(target, cloudpickle.loads(cloudpickle.dumps(target.sink)), target.records)
        same(target.read_committed(), target.records)

    def test_an_empty_batch_writes_nothing(self, target: SinkTarget) -> None:
        """A batch without records leaves no trace."""
        writer = SinkRig(target).writer()
        writer.write(Batch([]))
        assert writer.prepare(CheckpointId(1)) is None
        writer.close()
        same(target.read_committed(), [])


class CommitClauses:
    """Clauses of commits."""

    def test_nothing_is_visible_before_the_commit(self, target: SinkTarget) -> None:
        """Prepared work is invisible until it is committed."""
        SinkRig(target).epoch(target.records, 1)
        assert target.read_committed() == []

    def test_a_commit_makes_every_record_visible_once(self, target: SinkTarget) -> None:
        """A committed epoch is visible once, and nothing else."""
        rig = SinkRig(target)
        rig.commits(rig.epoch(target.records, 1))
        rig.see(target.records)

    def test_a_second_commit_answers_already_committed(self, target: SinkTarget) -> None:
        """Committing again proves the first commit and changes nothing, however often."""
        rig = SinkRig(target)
        work = rig.epoch(target.records, 1)
        rig.commit(work)
        for _ in range(2):
            rig.commits(work, already=True, when="it was committed before")
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

    def test_a_branch_writes_beside_what_the_history_it_left_has_committed(self, target: SinkTarget) -> None:
        """An epoch that is written again by a branch is visible in addition to the one that was committed under its number."""
        rig = SinkRig(target)
        rig.commit(rig.epoch(target.records[:4], 1))
        rig.commit(rig.epoch(target.records[4:8], 2))
        branch = replace(rig, branch=1)
        branch.commits(branch.epoch(target.records[8:], 2))
        rig.see(target.records)

    def test_fewer_writers_go_on_where_more_have_stopped(self, target: SinkTarget) -> None:
        """After a rescale the work of all earlier writers is committed, and a remaining writer continues at the same time."""
        many = SinkRig(target, parallelism=3)
        parts = [many.epoch(target.records[3 * n : 3 * n + 3], 1, subtask=n) for n in range(3)]
        one = replace(many, parallelism=1)
        one.commits(*parts)
        one.commits(one.epoch(target.records[9:], 2))
        one.see(target.records)


class RefusedCommitClauses:
    """Clauses of a sink whose external system can refuse a commit; its target has `refusing`."""

    def test_a_refused_commit_says_why_and_is_done_when_it_is_tried_again(self, target: SinkTarget) -> None:
        """A refusal is not an error and changes nothing: it is answered with its reason, and a later commit succeeds."""
        assert target.refusing is not None, "the target does not say how its system refuses"
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
        one.commits(one.epoch(target.records, 1, attempt="2"))
        one.see(target.records)

    def test_what_a_killed_process_aborted_is_gone(self, target: SinkTarget) -> None:
        """An abort is over when it returns: nothing of it is left to a process that may die."""
        work = _killed("abort", target).prepared
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
        rig.commits(kept)
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

    kills: ClassVar[int] = 40
    """At how many places inside a commit a process is killed, at most; they are spread evenly over more steps than that."""

    def test_another_process_commits_what_a_killed_one_prepared(self, target: SinkTarget) -> None:
        """The payload alone is enough to commit once the writer's process is dead."""
        rig = SinkRig(target)
        work = _killed("prepare", target).prepared
        assert target.read_committed() == []
        rig.abort_except(work)
        rig.commits(work)
        rig.see(target.records)

    def test_a_process_killed_before_its_first_record_disturbs_nobody(self, target: SinkTarget) -> None:
        """Opening a writer creates nothing that is visible or blocks the next one."""
        rig = SinkRig(target)
        _killed("open", target)
        rig.abort_except()
        assert target.read_committed() == []
        rig.commits(rig.epoch(target.records, 1, attempt="2"))
        rig.see(target.records)

    def test_a_process_killed_while_writing_leaves_nothing_visible(self, target: SinkTarget) -> None:
        """What was not prepared is invisible and stays so; writing it again shows it once."""
        rig = SinkRig(target)
        _killed("write", target)
        assert target.read_committed() == []
        rig.abort_except()
        rig.commits(rig.epoch(target.records, 1, attempt="2"))
        rig.see(target.records)

    def test_a_commit_whose_process_was_killed_is_recognised(self, target: SinkTarget) -> None:
        """If the process dies right after its commit, another one finds out that it was done."""
        work = _killed("commit", target).prepared
        rig = SinkRig(target)
        rig.commits(work, already=True, when="the process was killed right after its commit")
        rig.see(target.records)

    def test_a_process_killed_inside_a_commit_neither_loses_nor_doubles(self, target: SinkTarget) -> None:
        """A process dies before any external step of its commit; committing again makes every record visible once."""
        rig, seen = SinkRig(target), list(target.records)
        with victims(target) as processes:
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

    def test_an_owner_that_is_replaced_before_it_acts_touches_nothing_of_the_new_one(
        self, target: SinkTarget
    ) -> None:
        """A process may be stopped right after a check that it is the owner. What it then removes and refuses is what it
        saw before the check, and nothing that the new owner has prepared since."""
        prepared: list[Committable] = []

        def replaced() -> None:
            """Passes for the last time; what is asked later is answered truly."""
            if prepared:
                raise FencedError("the pipeline has a newer owner")
            second = SinkRig(target, term=2)
            second.take_over()
            prepared.append(second.epoch(target.records, 2, attempt="2"))

        first = SinkRig(target, check_owner=replaced)
        first.epoch(target.records[:5], 1)
        with suppress(FencedError):
            first.take_over()
        if not prepared:  # it looks and acts by one call, whenever that is
            replaced()
            first.take_over()
        assert SinkRig(target, term=2).commit(*prepared) == [CommitAnswer.COMMITTED]
        first.see(target.records)

    def test_a_replaced_owner_that_checks_removes_nothing(self, target: SinkTarget) -> None:
        """What `check_owner` raises ends the call before anything is removed."""
        work = SinkRig(target).epoch(target.records, 1)

        def fenced() -> None:
            raise FencedError("the pipeline has a newer owner")

        with suppress(FencedError):
            SinkRig(target, term=0, check_owner=fenced).take_over()
        assert SinkRig(target).commit(work) == [CommitAnswer.COMMITTED]
        SinkRig(target).see(target.records)

    def test_a_new_owner_has_idle_writers_of_the_old_one_refused(self, target: SinkTarget) -> None:
        """If its committer can fence: a writer that was open and had written nothing can make nothing ready any more."""
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
        """What is left of the time of prepared work lacks the time since its first record; every epoch has its own."""
        rig, clock, left = SinkRig(target), ManualClock(SYSTEM_CLOCK.now_ms()), list[int]()
        writer = rig.writer(clock=clock)
        assert isinstance(writer, SupportsExpiry), "the writer does not say when its work expires"
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
    with victims(target) as processes:
        return processes.killed(stage)


def _write_and_prepare(writer: SinkWriter, record: Any) -> None:
    writer.write(Batch([record]))
    writer.prepare(CheckpointId(2))
