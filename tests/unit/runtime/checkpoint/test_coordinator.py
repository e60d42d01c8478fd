from __future__ import annotations

import pytest

from tidegate.errors import (
    CommitFailedError,
    CommitUnknownError,
    FencedError,
    InternalError,
    StateFormatError,
    TidegateError,
    UnavailableError,
)
from tidegate.ids import CheckpointId, OperatorUid, Subtask
from tidegate.runtime.checkpoint import protocol as cp
from tidegate.runtime.checkpoint.coordinator import CheckpointCoordinator
from tidegate.runtime.checkpoint.manifest import Unsettled
from tidegate.runtime.checkpoint.retention import Release
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.twophase.ledger import Answered
from tidegate.twophase.spi import CommitAnswer, Committable, Retry

A, B = Subtask("a", 0), Subtask("b", 0)
ONE, TWO, THREE = CheckpointId(1), CheckpointId(2), CheckpointId(3)
WORK = Committable(OperatorUid("sink"), 0, ONE, b"", "part-1", 5)
OTHER = Committable(OperatorUid("sink"), 1, ONE, b"", "part-2", 6)
FULL = UnavailableError("disk full")
TOO_LARGE = StateFormatError("state 'seen' is too large")
NO_RELEASE = Release((), frozenset())


def coordinator(**plan: int) -> CheckpointCoordinator:
    made = CheckpointCoordinator(
        cp.Plan((A, B), (A,), **{"interval_ms": 100, "timeout_ms": 1_000, **plan}), ONE
    )
    assert made.on(cp.Tick(0)) == []
    return made


def decide(made: CheckpointCoordinator, number: CheckpointId, *work: Committable) -> list[cp.Action]:
    """Acknowledge, write and swap; what the swap leads to."""
    made.on(cp.Ack(A, number, ()))
    (write,) = made.on(cp.Ack(B, number, (OperatorReport(OperatorUid("sink"), 0, committables=work),)))
    assert isinstance(write, cp.WriteMetadata)
    assert made.on(cp.MetadataDurable(number, frozenset())) == [cp.SwapLatest(number)]
    return made.on(cp.Swapped(number))


@pytest.mark.spec("004/EOS-015")
def test_the_first_checkpoint_comes_an_interval_after_the_start() -> None:
    made = coordinator()

    assert made.on(cp.Tick(99)) == []
    assert made.on(cp.Tick(100)) == [cp.Trigger(ONE, None)]
    assert made.on(cp.Tick(500)) == [], "one at a time"


@pytest.mark.spec("004/EOS-018")
def test_nothing_is_committed_before_the_decision_and_nothing_settled_before_the_answers() -> None:
    made = coordinator()
    made.on(cp.Tick(100))

    assert decide(made, ONE, WORK, OTHER) == [cp.Commit(ONE, (WORK, OTHER))]
    assert made.confirmed == ONE
    assert made.on(Answered(ONE, ((WORK, CommitAnswer.COMMITTED),))) == []
    assert made.on(Answered(ONE, ((OTHER, CommitAnswer.ALREADY_COMMITTED),))) == [cp.Settle(ONE)]
    assert made.on(cp.SettledDurable(ONE)) == [cp.Settled(ONE), NO_RELEASE]


@pytest.mark.spec(
    "004/AX-023", "004/EOS-008", "004/EOS-009", "003/SNK-02", "003/SNK-03", "003/SNK-04", "003/SNK-06"
)
@pytest.mark.parametrize("vote", ["yes", "no", "silent"])
def test_all_participants_commit_or_none_does_whether_one_says_no_or_nothing(vote: str) -> None:
    participants = tuple(Subtask("sink", index) for index in range(3))
    made = CheckpointCoordinator(cp.Plan(participants, participants, interval_ms=100, timeout_ms=1_000), ONE)
    made.on(cp.Tick(0))
    works = [Committable(OperatorUid("sink"), index, ONE, b"", f"part-{index}", 1) for index in range(3)]
    yes = [
        cp.Ack(each, ONE, (OperatorReport(OperatorUid("sink"), each.index, committables=(work,)),))
        for each, work in zip(participants, works, strict=True)
    ]

    assert made.on(cp.Tick(100)) == [cp.Trigger(ONE, None)], "all are asked"
    assert [made.on(each) for each in yes[:2]] == [[], []], "nothing is decided while a vote is missing"
    last: dict[str, cp.Event] = {
        "yes": yes[2],
        "no": cp.Decline(participants[2], ONE, FULL),
        "silent": cp.Tick(1_100),
    }
    (outcome,) = made.on(last[vote])

    if vote != "yes":
        assert isinstance(outcome, cp.Abort)
        assert made.on(yes[2]) == [], "a vote that comes late changes nothing"
        assert (made.confirmed, made.unsettled) == (None, {})
        return
    assert isinstance(outcome, cp.WriteMetadata)
    assert made.on(cp.MetadataDurable(ONE, frozenset())) == [cp.SwapLatest(ONE)]
    assert made.on(cp.Swapped(ONE)) == [cp.Commit(ONE, tuple(works))]
    answers = [((work, CommitAnswer.COMMITTED),) for work in works]
    assert [made.on(Answered(ONE, each)) for each in answers] == [[], [], [cp.Settle(ONE)]]


def test_the_next_checkpoint_runs_while_one_is_settling_and_carries_its_work() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    decide(made, ONE, WORK)

    assert made.on(cp.Tick(200)) == [cp.Trigger(TWO, ONE)]
    made.on(cp.Ack(A, TWO, ()))
    (write,) = made.on(cp.Ack(B, TWO, ()))

    assert isinstance(write, cp.WriteMetadata)
    assert write.unsettled == (Unsettled(ONE, (WORK,)), Unsettled(TWO, ()))


def test_a_late_checkpoint_is_given_up_with_who_did_not_answer() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.Ack(A, ONE, ()))

    assert made.on(cp.Tick(1_099)) == []
    assert made.on(cp.Tick(1_100)) == [cp.Abort(ONE, "not acknowledged within 1000 ms by b[0]")]
    assert made.on(cp.Tick(1_101)) == [cp.Trigger(TWO, None)]
    assert made.on(cp.Ack(B, ONE, ())) == [], "too late"


def test_a_checkpoint_that_is_being_decided_is_never_given_up() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.Ack(A, ONE, ()))
    made.on(cp.Ack(B, ONE, ()))

    assert made.on(cp.Tick(100_000)) == []


def test_what_a_subtask_has_dropped_is_deleted_with_the_next_settled_checkpoint() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.Ack(A, ONE, (OperatorReport(OperatorUid("a"), 0, dropped=("left",)),)))
    made.on(cp.Decline(B, ONE, UnavailableError("disk full")))
    made.on(cp.Tick(200))
    made.on(cp.Ack(A, TWO, (OperatorReport(OperatorUid("a"), 0, dropped=("behind",)),)))
    made.on(cp.Ack(B, TWO, ()))
    made.on(cp.MetadataDurable(TWO, frozenset()))
    made.on(cp.Swapped(TWO))
    assert made.on(cp.SettledDurable(TWO)) == [cp.Settled(TWO), Release((), frozenset({"left"}))]
    made.on(cp.Tick(300))

    decide(made, THREE)
    assert made.on(cp.SettledDurable(THREE)) == [cp.Settled(THREE), Release((), frozenset({"behind"}))]


@pytest.mark.parametrize(
    "event",
    [cp.Decline(B, ONE, FULL), cp.MetadataFailed(ONE, FULL)],
    ids=["declined by a subtask", "metadata not written"],
)
def test_a_checkpoint_that_cannot_be_made_durable_is_given_up_and_the_job_goes_on(event: cp.Event) -> None:
    made = coordinator()
    made.on(cp.Tick(100))

    assert made.on(event) == [cp.Abort(ONE, "disk full")]
    assert made.on(event) == []
    assert made.on(cp.Tick(200)) == [cp.Trigger(TWO, None)]


def test_a_checkpoint_that_could_not_be_decided_is_given_up_and_the_next_builds_on_none_of_it() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.Ack(A, ONE, ()))
    made.on(cp.Ack(B, ONE, ()))
    assert made.on(cp.MetadataDurable(ONE, frozenset({"file"}))) == [cp.SwapLatest(ONE)]

    assert made.on(cp.MetadataFailed(ONE, FULL)) == [cp.Abort(ONE, "disk full")]
    assert made.on(cp.Tick(200)) == [cp.Trigger(TWO, None)]


def test_a_second_ack_of_a_subtask_counts_once() -> None:
    made = coordinator()
    made.on(cp.Tick(100))

    assert made.on(cp.Ack(A, ONE, ())) == []
    assert made.on(cp.Ack(A, ONE, ())) == []


def test_the_end_of_the_input_takes_a_last_checkpoint_and_ends_when_it_is_settled() -> None:
    made = coordinator()

    assert made.on(cp.Finish("finish")) == [cp.Trigger(ONE, None)]
    assert made.on(cp.Finish("stop")) == [], "it ends already"
    assert decide(made, ONE) == [cp.Settle(ONE)]
    assert made.on(cp.SettledDurable(ONE)) == [cp.Settled(ONE), NO_RELEASE, cp.EndJob("finish", ONE)]
    assert made.on(cp.Tick(10_000)) == [], "nothing follows the last one"


def test_a_stop_waits_for_the_checkpoint_on_its_way() -> None:
    made = coordinator()
    made.on(cp.Tick(100))

    assert made.on(cp.Finish("stop")) == []
    assert decide(made, ONE) == [cp.Settle(ONE), cp.Trigger(TWO, ONE)]
    assert made.on(cp.SettledDurable(ONE)) == [cp.Settled(ONE), NO_RELEASE]
    assert decide(made, TWO) == [cp.Settle(TWO)]
    assert made.on(cp.SettledDurable(TWO)) == [cp.Settled(TWO), NO_RELEASE, cp.EndJob("stop", TWO)]


def test_a_last_checkpoint_that_fails_is_tried_again() -> None:
    made = coordinator()
    made.on(cp.Finish("stop"))

    assert made.on(cp.Decline(A, ONE, FULL)) == [cp.Abort(ONE, "disk full")]
    assert made.on(cp.Tick(100)) == [cp.Trigger(TWO, None)]
    decide(made, TWO)
    assert made.on(cp.SettledDurable(TWO))[-1] == cp.EndJob("stop", TWO)


def declined(made: CheckpointCoordinator, number: CheckpointId, error: TidegateError) -> TidegateError | None:
    """Decline a checkpoint; what the job fails with, if it does."""
    abort, *rest = made.on(cp.Decline(A, number, error))
    assert abort == cp.Abort(number, str(error))
    (failed,) = rest or (None,)
    return failed.error if isinstance(failed, cp.FailJob) else None


def test_a_job_outlives_any_number_of_failed_checkpoints_but_not_of_last_ones() -> None:
    made = coordinator()
    for number in map(CheckpointId, range(1, 51)):
        assert made.on(cp.Tick(number * 100)) == [cp.Trigger(number, None)]
        assert declined(made, number, FULL) is None

    assert made.on(cp.Finish("finish")) == [cp.Trigger(CheckpointId(51), None)]
    assert declined(made, CheckpointId(51), FULL) is None
    assert made.on(cp.Tick(5_100)) == [cp.Trigger(CheckpointId(52), None)]
    assert declined(made, CheckpointId(52), FULL) is None
    assert made.on(cp.Tick(5_200)) == [cp.Trigger(CheckpointId(53), None)]
    error = declined(made, CheckpointId(53), FULL)
    with pytest.raises(
        UnavailableError,
        match=r"3 checkpoints in a row failed; the last one, checkpoint 53: disk full",
    ):
        raise error or AssertionError("it goes on")


def test_a_last_checkpoint_is_tried_again_soon_however_rare_checkpoints_are() -> None:
    made = coordinator(interval_ms=2**62)
    made.on(cp.Finish("finish"))
    declined(made, ONE, FULL)

    assert made.on(cp.Tick(9_999)) == []
    assert made.on(cp.Tick(10_000)) == [cp.Trigger(TWO, None)]


def test_state_that_fits_no_checkpoint_ends_the_job_with_the_last_one() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    assert declined(made, ONE, TOO_LARGE) is None, "it may shrink"
    made.on(cp.Finish("finish"))
    made.on(cp.Tick(200))

    assert declined(made, TWO, TOO_LARGE) is TOO_LARGE


def test_more_failed_checkpoints_in_a_row_than_are_tolerated_end_the_job() -> None:
    made = coordinator(tolerated=1)
    made.on(cp.Tick(100))
    assert declined(made, ONE, FULL) is None
    made.on(cp.Tick(200))
    decide(made, TWO)
    made.on(cp.Tick(300))
    assert declined(made, THREE, FULL) is None, "one was decided in between"
    made.on(cp.Tick(400))

    assert isinstance(declined(made, CheckpointId(4), FULL), UnavailableError)


def test_state_that_fits_no_checkpoint_counts_like_any_failure_and_is_named() -> None:
    made = coordinator(tolerated=0)
    made.on(cp.Tick(100))

    assert declined(made, ONE, TOO_LARGE) is TOO_LARGE


def settle(made: CheckpointCoordinator, number: CheckpointId) -> list[cp.Action]:
    """Decide without work, and mark it; what the mark leads to."""
    assert decide(made, number)[0] == cp.Settle(number)
    return made.on(cp.SettledDurable(number))


def test_a_savepoint_is_written_from_a_checkpoint_that_is_taken_at_once_and_settled() -> None:
    made = coordinator()

    assert made.on(cp.SavepointWanted("a")) == []
    assert made.on(cp.SavepointWanted("b")) == []
    assert made.on(cp.Tick(1)) == [cp.Trigger(ONE, None)]
    assert settle(made, ONE) == [
        cp.Settled(ONE),
        NO_RELEASE,
        cp.WriteSavepoint(ONE, "a"),
        cp.WriteSavepoint(ONE, "b"),
    ]
    assert made.on(cp.Tick(2)) == [], "the next one comes an interval later"


def test_a_savepoint_that_is_wanted_during_a_checkpoint_waits_for_the_next_one() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.SavepointWanted("a"))

    assert settle(made, ONE) == [cp.Settled(ONE), NO_RELEASE]
    assert made.on(cp.Tick(101)) == [cp.Trigger(TWO, ONE)]
    assert settle(made, TWO)[2:] == [cp.WriteSavepoint(TWO, "a")]


def test_a_checkpoint_stays_until_its_last_savepoint_is_written() -> None:
    made = coordinator(retained=1)
    made.on(cp.SavepointWanted("a"))
    made.on(cp.SavepointWanted("b"))
    made.on(cp.Tick(1))
    settle(made, ONE)
    made.on(cp.Tick(101))
    assert made.on(cp.SavepointOver("a")) == []
    assert settle(made, TWO) == [cp.Settled(TWO), NO_RELEASE]
    assert made.on(cp.SavepointOver("b")) == []

    made.on(cp.Tick(201))
    assert settle(made, THREE) == [cp.Settled(THREE), Release((ONE, TWO), frozenset())]


def test_a_stop_ends_when_the_savepoint_of_its_last_checkpoint_is_over() -> None:
    made = coordinator()
    made.on(cp.SavepointWanted("a"))

    assert made.on(cp.Finish("stop")) == [cp.Trigger(ONE, None)]
    assert settle(made, ONE) == [cp.Settled(ONE), NO_RELEASE, cp.WriteSavepoint(ONE, "a")]
    assert made.on(cp.SavepointWanted("b")) == [cp.SavepointFailed("b", "the job is already ending")]
    assert made.on(cp.SavepointOver("a")) == [cp.EndJob("stop", ONE)]


def test_a_checkpoint_that_fails_takes_its_savepoints_along_unless_it_is_the_last() -> None:
    made = coordinator()
    made.on(cp.SavepointWanted("a"))
    made.on(cp.Tick(1))
    assert made.on(cp.Decline(A, ONE, FULL)) == [
        cp.Abort(ONE, "disk full"),
        cp.SavepointFailed("a", "checkpoint 1: disk full"),
    ]

    made.on(cp.SavepointWanted("b"))
    made.on(cp.Finish("stop"))
    assert made.on(cp.Decline(A, TWO, FULL)) == [cp.Abort(TWO, "disk full")]
    assert made.on(cp.Tick(2)) == [], "the last one is not tried again at once"
    made.on(cp.Tick(200))
    assert settle(made, THREE)[2:] == [cp.WriteSavepoint(THREE, "b")]


def test_a_savepoint_waits_for_output_to_become_visible_and_names_what_does_not() -> None:
    made = coordinator()
    made.on(cp.SavepointWanted("a"))
    made.on(cp.Tick(1))
    decide(made, ONE, WORK, OTHER)
    made.on(Answered(ONE, ((WORK, CommitAnswer.COMMITTED), (OTHER, Retry("disk full")))))
    made.on(cp.SavepointWanted("b"))
    assert made.on(cp.Tick(500)) == [cp.Trigger(TWO, ONE)]
    decide(made, TWO)

    assert made.on(cp.Finish("stop")) == [cp.Trigger(THREE, TWO)]
    left = "open: sink 'sink' part-2 (6 records; disk full)"
    assert made.on(cp.Tick(1_001)) == [
        cp.SavepointFailed(
            "a", f"checkpoint 1: the output of earlier checkpoints is not visible after 1000 ms; {left}"
        )
    ]
    decide(made, THREE)
    assert made.on(Answered(ONE, ((OTHER, CommitAnswer.COMMITTED),))) == [
        cp.Settle(ONE),
        cp.Settle(TWO),
        cp.Settle(THREE),
    ]
    assert made.on(cp.SettledDurable(ONE)) == [cp.Settled(ONE), NO_RELEASE]
    assert made.on(cp.SettledDurable(TWO))[2:] == [cp.WriteSavepoint(TWO, "b")]
    assert made.on(cp.SettledDurable(THREE))[2:] == [cp.EndJob("stop", THREE)]


def test_a_savepoint_of_the_last_checkpoint_that_is_given_up_does_not_end_the_job_before_it_is_settled() -> (
    None
):
    made = coordinator()
    made.on(cp.SavepointWanted("a"))
    made.on(cp.Finish("stop"))
    decide(made, ONE, WORK)
    made.on(Answered(ONE, ((WORK, CommitAnswer.COMMITTED),)))

    assert made.on(cp.Tick(5_000)) == [
        cp.SavepointFailed(
            "a",
            "checkpoint 1: the output of earlier checkpoints is not visible after 1000 ms; open: only its settled mark",
        )
    ]
    assert made.on(cp.SettledDurable(ONE)) == [cp.Settled(ONE), NO_RELEASE, cp.EndJob("stop", ONE)]


def test_while_a_part_is_down_what_is_not_acknowledged_is_forgotten_and_nothing_begins() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.Ack(A, ONE, ()))
    assert not made.quiet

    assert made.on(cp.Pause("b is gone")) == [cp.Abort(ONE, "b is gone")]
    assert made.quiet
    assert made.on(cp.Tick(5_000)) == []
    assert made.on(cp.Resume()) == []
    assert made.on(cp.Tick(5_001)) == [cp.Trigger(TWO, None)]


def test_what_all_have_acknowledged_is_decided_and_settled_while_a_part_is_down() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    made.on(cp.Ack(A, ONE, ()))
    made.on(cp.Ack(B, ONE, (OperatorReport(OperatorUid("sink"), 0, committables=(WORK,)),)))

    assert made.on(cp.Pause("b is gone")) == []
    assert not made.quiet
    assert made.on(cp.MetadataDurable(ONE, frozenset())) == [cp.SwapLatest(ONE)]
    assert made.on(cp.Swapped(ONE)) == [cp.Commit(ONE, (WORK,))]
    assert made.unsettled == {ONE: (WORK,)}
    assert not made.quiet
    assert made.on(Answered(ONE, ((WORK, CommitAnswer.COMMITTED),))) == [cp.Settle(ONE)]
    assert made.quiet


def test_a_savepoint_outlives_the_checkpoint_that_a_lost_part_ends() -> None:
    made = coordinator(tolerated=0)
    made.on(cp.SavepointWanted("here"))
    assert made.on(cp.Tick(1)) == [cp.Trigger(ONE, None)]

    assert made.on(cp.Pause("b is gone")) == [cp.Abort(ONE, "b is gone")]
    made.on(cp.Resume())
    assert made.on(cp.Tick(2)) == [cp.Trigger(TWO, None)]

    settled = [*decide(made, TWO), *made.on(cp.SettledDurable(TWO))]
    assert cp.WriteSavepoint(TWO, "here") in settled


def test_who_lost_the_pipeline_is_fenced() -> None:
    made = coordinator()
    made.on(cp.Tick(100))

    (failed,) = made.on(cp.SwapLost(ONE, "run r2 owns it"))

    assert isinstance(failed, cp.FailJob)
    with pytest.raises(FencedError, match="checkpoint 1 cannot be decided: run r2 owns it; this run stops"):
        raise failed.error


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        (
            (CommitAnswer.ABORTED, CommitAnswer.ABORTED),
            UnavailableError,
            "all output of checkpoint 1 was aborted",
        ),
        (
            (CommitAnswer.COMMITTED, CommitAnswer.ABORTED),
            CommitFailedError,
            "only part of its output is visible",
        ),
        ((CommitAnswer.COMMITTED, CommitAnswer.UNKNOWN), CommitUnknownError, "it is unknown whether"),
    ],
    ids=["all aborted", "partly aborted", "unknown"],
)
def test_output_that_is_not_what_was_decided_fails_the_job(
    answers: tuple[CommitAnswer, CommitAnswer], error: type[Exception], message: str
) -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    decide(made, ONE, WORK, OTHER)

    (failed,) = made.on(Answered(ONE, tuple(zip((WORK, OTHER), answers, strict=True))))

    assert isinstance(failed, cp.FailJob)
    with pytest.raises(error, match=message):
        raise failed.error


def test_a_commit_that_could_not_be_tried_is_asked_for_again() -> None:
    made = coordinator()
    made.on(cp.Tick(100))
    decide(made, ONE, WORK, OTHER)

    answers = ((WORK, CommitAnswer.COMMITTED), (OTHER, Retry("disk full")))
    assert made.on(Answered(ONE, answers)) == [cp.Commit(ONE, (OTHER,))]


def test_an_answer_nobody_asked_for_is_an_error_of_ours() -> None:
    (failed,) = coordinator().on(Answered(THREE, ((WORK, CommitAnswer.COMMITTED),)))

    assert isinstance(failed, cp.FailJob)
    with pytest.raises(InternalError, match="settlement is out of order: answers for checkpoint 3"):
        raise failed.error
