"""Settlement: strictly in order, whatever order answers come in, and never a guess."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from tidegate.errors import CommitFailedError, CommitUnknownError, InternalError
from tidegate.ids import CheckpointId, OperatorUid
from tidegate.twophase.ledger import Action, Answered, Commit, Decided, Fail, Ledger, Replay, Settle
from tidegate.twophase.spi import Answer, CommitAnswer, Committable, Retry

COMMITTED, ALREADY, ABORTED, UNKNOWN = CommitAnswer
RETRY = Retry("disk full")
ONE, TWO, THREE = (CheckpointId(number) for number in (1, 2, 3))


def work(checkpoint: int, *names: str) -> tuple[Committable, ...]:
    return tuple(
        Committable(OperatorUid("orders"), index, CheckpointId(checkpoint), name.encode(), f"file {name}", 3)
        for index, name in enumerate(names)
    )


def answered(checkpoint: CheckpointId, *answers: tuple[Committable, Answer]) -> Answered:
    return Answered(checkpoint, answers)


def error_of(actions: list[Action]) -> Exception:
    (action,) = actions
    assert isinstance(action, Fail)
    return action.error


def test_a_checkpoint_without_committables_settles_at_once() -> None:
    ledger = Ledger()

    assert ledger.on(Decided(ONE, ())) == [Settle(ONE)]
    assert ledger.unsettled == {}
    assert ledger.settled == ONE


def test_a_checkpoint_settles_when_all_its_work_is_visible() -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")

    assert ledger.on(Decided(ONE, (a, b))) == [Commit(ONE, (a, b))]
    assert ledger.on(answered(ONE, (a, COMMITTED))) == []
    assert ledger.unsettled == {ONE: (a, b)}
    assert ledger.on(answered(ONE, (b, ALREADY))) == [Settle(ONE)]
    assert ledger.unsettled == {}


def test_the_next_checkpoint_waits_until_the_one_before_is_settled() -> None:
    ledger = Ledger()
    (a,), (c,) = work(1, "a"), work(3, "c")
    ledger.on(Decided(ONE, (a,)))

    assert ledger.on(Decided(TWO, ())) == []
    assert ledger.on(Decided(THREE, (c,))) == []
    assert ledger.on(answered(ONE, (a, COMMITTED))) == [Settle(ONE), Settle(TWO), Commit(THREE, (c,))]


def test_retry_asks_again_for_that_work_only() -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))

    assert ledger.on(answered(ONE, (a, COMMITTED), (b, RETRY))) == [Commit(ONE, (b,))]
    assert ledger.on(answered(ONE, (b, RETRY))) == [Commit(ONE, (b,))]
    assert ledger.on(answered(ONE, (b, COMMITTED))) == [Settle(ONE)]


def test_a_late_retry_does_not_ask_for_work_that_is_committed() -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))
    ledger.on(answered(ONE, (a, COMMITTED)))

    assert ledger.on(answered(ONE, (a, RETRY))) == []


def test_all_aborted_goes_back_and_ends_the_ledger() -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))
    ledger.on(Decided(TWO, work(2, "c")))

    assert ledger.on(answered(ONE, (a, ABORTED), (b, ABORTED))) == [Replay(ONE)]
    assert ledger.on(answered(ONE, (a, ABORTED))) == []
    assert ledger.on(Decided(THREE, ())) == []


def test_a_part_aborted_fails_with_what_is_visible_and_the_ways_on() -> None:
    ledger = Ledger(settled=CheckpointId(6))
    a, b = work(7, "a", "b")
    ledger.on(Decided(CheckpointId(7), (a, b)))

    error = error_of(ledger.on(answered(CheckpointId(7), (a, COMMITTED), (b, ABORTED))))

    assert isinstance(error, CommitFailedError)
    with pytest.raises(
        CommitFailedError,
        match=r"checkpoint 7 is decided but only part of its output is visible; "
        r"committed: sink 'orders' file a \(3 records\); aborted and lost: sink 'orders' file b \(3 records\); "
        r".*--accept-loss 7; .*--replay-from 6",
    ):
        raise error


def test_without_a_settled_checkpoint_the_message_does_not_invent_one() -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))

    error = error_of(ledger.on(answered(ONE, (a, COMMITTED), (b, ABORTED))))

    assert str(error).endswith("with --replay-from 0, the beginning")


@pytest.mark.parametrize(
    "answers",
    [(COMMITTED, ABORTED), (COMMITTED, UNKNOWN), (ABORTED, UNKNOWN)],
    ids=lambda each: f"{each[0].name}-{each[1].name}",
)
def test_a_loss_that_is_accepted_settles_the_checkpoint_and_later_ones_go_on(
    answers: tuple[CommitAnswer, CommitAnswer],
) -> None:
    ledger = Ledger(accepted=ONE)
    a, b = work(1, "a", "b")
    (c,) = work(2, "c")
    ledger.on(Decided(ONE, (a, b)))
    ledger.on(Decided(CheckpointId(2), (c,)))

    assert ledger.on(answered(ONE, (a, answers[0]), (b, answers[1]))) == [
        Settle(ONE),
        Commit(CheckpointId(2), (c,)),
    ]


def test_what_can_be_replayed_without_repeating_anything_is_replayed_though_its_loss_is_accepted() -> None:
    ledger = Ledger(accepted=ONE)
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))

    assert ledger.on(answered(ONE, (a, ABORTED), (b, ABORTED))) == [Replay(ONE)]


def test_unknown_fails_only_when_nothing_else_is_outstanding() -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))

    assert ledger.on(answered(ONE, (a, UNKNOWN))) == []
    error = error_of(ledger.on(answered(ONE, (b, ABORTED))))

    assert isinstance(error, CommitUnknownError)
    with pytest.raises(
        CommitUnknownError,
        match=r"checkpoint 1 is decided but it is unknown whether.*unknown: sink 'orders' file a \(3 records\); "
        r"aborted: sink 'orders' file b \(3 records\); check the external .*--accept-loss 1; .* --replay-from 0, the beginning",
    ):
        raise error


def test_knowing_beats_not_knowing_in_either_order() -> None:
    a, b = work(1, "a", "b")
    for first, second in ((UNKNOWN, COMMITTED), (COMMITTED, UNKNOWN)):
        ledger = Ledger()
        ledger.on(Decided(ONE, (a, b)))
        ledger.on(answered(ONE, (a, first)))
        ledger.on(answered(ONE, (a, second)))

        assert ledger.on(answered(ONE, (b, COMMITTED))) == [Settle(ONE)]


@pytest.mark.parametrize(
    "answers", [(COMMITTED, ABORTED), (ABORTED, ALREADY)], ids=["undone", "done after all"]
)
def test_contradicting_answers_stop_everything(answers: tuple[CommitAnswer, CommitAnswer]) -> None:
    ledger = Ledger()
    a, b = work(1, "a", "b")
    ledger.on(Decided(ONE, (a, b)))
    ledger.on(answered(ONE, (a, answers[0])))

    error = error_of(ledger.on(answered(ONE, (a, answers[1]))))

    with pytest.raises(InternalError, match="sink 'orders' file a was answered both committed and aborted"):
        raise error


def test_answers_for_a_settled_checkpoint_are_harmless_unless_they_contradict() -> None:
    ledger = Ledger()
    (a,) = work(1, "a")
    ledger.on(Decided(ONE, (a,)))
    ledger.on(answered(ONE, (a, COMMITTED)))

    assert ledger.on(answered(ONE, (a, ALREADY))) == []
    assert ledger.on(answered(ONE, (a, RETRY), (a, UNKNOWN))) == []
    with pytest.raises(InternalError, match="both committed and aborted"):
        raise error_of(ledger.on(answered(ONE, (a, ABORTED))))


def test_the_same_decision_twice_is_harmless() -> None:
    ledger = Ledger()
    decided = Decided(ONE, work(1, "a"))
    ledger.on(decided)

    assert ledger.on(decided) == []


@pytest.mark.parametrize(
    "event",
    [
        Decided(TWO, work(2, "other")),
        Decided(ONE, work(1, "older")),
        Answered(THREE, ((work(3, "c")[0], COMMITTED),)),
        Answered(TWO, ((work(2, "stranger")[0], COMMITTED),)),
    ],
    ids=["other work", "out of order", "not asked", "stranger"],
)
def test_events_that_cannot_be_are_reported(event: Decided | Answered) -> None:
    ledger = Ledger()
    ledger.on(Decided(TWO, work(2, "b")))

    with pytest.raises(InternalError, match=r"settlement is out of order: .*; no further commits"):
        raise error_of(ledger.on(event))


@given(
    outcomes=st.lists(
        st.lists(st.sampled_from([COMMITTED, ALREADY, ABORTED, UNKNOWN]), max_size=3), min_size=1, max_size=4
    ),
    seed=st.integers(),
)
def test_the_result_does_not_depend_on_the_order_pieces_or_repetition_of_answers(
    outcomes: list[list[CommitAnswer]], seed: int
) -> None:
    decided = [
        Decided(CheckpointId(number), work(number, *map(str, range(len(answers)))))
        for number, answers in enumerate(outcomes, 1)
    ]
    truth = {
        committable: answer
        for event, answers in zip(decided, outcomes, strict=True)
        for committable, answer in zip(event.committables, answers, strict=True)
    }

    assert final(settle(decided, truth, random.Random(seed))) == expected(decided, truth)


def settle(
    decided: list[Decided], truth: dict[Committable, CommitAnswer], chance: random.Random
) -> list[Action]:
    """Run a ledger against a world with these answers: retries, repetitions and any order."""
    ledger, done = Ledger(), list[Action]()
    for event in decided:
        done += ledger.on(event)
    asked = [action for action in done if isinstance(action, Commit)]
    while asked:
        action = asked.pop(chance.randrange(len(asked)))
        pieces: list[tuple[Committable, Answer]] = [
            (committable, truth[committable]) for committable in action.committables
        ]
        pieces += [(committable, RETRY) for committable, _ in pieces if chance.random() < 0.3]
        pieces += [piece for piece in pieces if chance.random() < 0.3]
        chance.shuffle(pieces)
        for piece in pieces:
            for then in ledger.on(answered(action.checkpoint, piece)):
                (asked if isinstance(then, Commit) else done).append(then)  # type: ignore[arg-type]  # as tested
    return done


def final(actions: list[Action]) -> list[str]:
    return [
        type(action.error).__name__
        if isinstance(action, Fail)
        else f"{type(action).__name__} {action.checkpoint}"
        for action in actions
        if not isinstance(action, Commit)
    ]


def expected(decided: list[Decided], truth: dict[Committable, CommitAnswer]) -> list[str]:
    names: list[str] = []
    for event in decided:
        answers = {truth[committable] for committable in event.committables}
        if UNKNOWN in answers:
            return [*names, "CommitUnknownError"]
        if answers == {ABORTED}:
            return [*names, f"Replay {event.checkpoint}"]
        if ABORTED in answers:
            return [*names, "CommitFailedError"]
        names.append(f"Settle {event.checkpoint}")
    return names
