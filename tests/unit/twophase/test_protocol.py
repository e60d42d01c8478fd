"""Two-phase commit: one outcome for all, whatever is lost, late or repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

from tidegate.errors import ConfigError
from tidegate.twophase.protocol import (
    Acknowledged,
    Action,
    Commit,
    Completed,
    Event,
    Outcome,
    Prepare,
    Rollback,
    TimedOut,
    TwoPhaseCommit,
    Voted,
)

COMMITTED, ROLLED_BACK = Outcome
NAMES = ("orders", "stock", "bank")


@dataclass
class Participant:
    """A table of one row that does its work with an undo and a redo log, and sets it aside until it is told."""

    name: str
    yes: bool = True
    silent: bool = False
    row: int = 100
    undo: list[int] = field(default_factory=list)
    redo: list[int] = field(default_factory=list)
    locked: bool = False
    over: bool = False

    def take(self, message: Action) -> Event | None:
        if isinstance(message, Prepare):
            if self.yes and not self.locked and not self.over:
                self.undo, self.redo, self.locked = [self.row], [self.row - 30], True
            return None if self.silent or self.over else Voted(self.name, self.yes)
        if self.locked:
            self.row = (self.redo if isinstance(message, Commit) else self.undo)[0]
            self.undo, self.redo, self.locked = [], [], False
        self.over = True
        return Acknowledged(self.name)


def run(participants: dict[str, Participant]) -> list[Action]:
    """Run to the end with every message delivered; silence ends the vote."""
    machine = TwoPhaseCommit("transfer", list(participants))
    sent, waiting = [], machine.start()
    while waiting:
        sent += waiting
        answers = [participants[m.participant].take(m) for m in waiting if not isinstance(m, Completed)]
        waiting = [action for answer in answers if answer is not None for action in machine.on(answer)]
        if not waiting and machine.outcome is None:
            waiting = machine.on(TimedOut())
    return sent


@pytest.mark.spec(
    "004/AX-023",
    "004/EOS-008",
    "004/EOS-009",
    "004/EOS-010",
    "004/EOS-011",
    "004/EOS-012",
    "003/SNK-02",
    "003/SNK-03",
    "003/SNK-04",
    "003/SNK-06",
)
@pytest.mark.parametrize(
    ("odd_one", "outcome", "row"),
    [
        (Participant("bank"), COMMITTED, 70),
        (Participant("bank", yes=False), ROLLED_BACK, 100),
        (Participant("bank", silent=True), ROLLED_BACK, 100),
    ],
    ids=["all say yes", "one says no", "one is silent"],
)
def test_all_commit_or_all_roll_back_by_their_undo_log(
    odd_one: Participant, outcome: Outcome, row: int
) -> None:
    participants = {name: Participant(name) for name in ("orders", "stock")} | {"bank": odd_one}

    sent = run(participants)

    order = "Commit" if outcome is COMMITTED else "Rollback"
    assert sent[:3] == [Prepare(name) for name in participants]
    assert [type(action).__name__ for action in sent[3:6]] == [order] * 3
    assert sent[6:] == [Completed(outcome)]
    assert [each.row for each in participants.values()] == [row] * 3
    assert not any(each.locked or each.undo or each.redo for each in participants.values())


@pytest.mark.spec("003/SNK-03")
def test_nothing_is_committed_while_a_vote_is_missing() -> None:
    machine = TwoPhaseCommit("transfer", NAMES)

    assert machine.on(Voted("orders", yes=True)) == []
    assert machine.on(Voted("orders", yes=True)) == []
    assert machine.on(Voted("stock", yes=True)) == []
    assert machine.outcome is None


def test_a_yes_after_the_time_is_over_changes_nothing() -> None:
    machine = TwoPhaseCommit("transfer", NAMES)
    machine.on(TimedOut())

    assert machine.on(Voted("orders", yes=True)) == []
    assert machine.outcome is ROLLED_BACK


def test_after_the_decision_silence_repeats_it_to_those_who_have_not_acknowledged() -> None:
    machine = TwoPhaseCommit("transfer", NAMES)
    for name in NAMES:
        machine.on(Voted(name, yes=True))
    machine.on(Acknowledged("stock"))

    assert machine.on(TimedOut()) == [Commit("orders"), Commit("bank")]


def test_an_acknowledgement_before_the_decision_counts_for_nothing() -> None:
    machine = TwoPhaseCommit("transfer", ["orders"])

    assert machine.on(Acknowledged("orders")) == []
    assert machine.on(Voted("orders", yes=True)) == [Commit("orders")]


@pytest.mark.parametrize("participants", [[], ["bank", "bank"]], ids=["nobody", "one name twice"])
def test_participants_have_names_of_their_own(participants: list[str]) -> None:
    with pytest.raises(
        ConfigError,
        match=r"transaction 'transfer': participants are .*; expected one or more different names",
    ):
        TwoPhaseCommit("transfer", participants)


@given(
    votes=st.lists(st.booleans(), min_size=1, max_size=4),
    lost=st.floats(0, 0.6),
    seed=st.integers(0, 2**32),
)
def test_with_messages_lost_repeated_and_out_of_order_all_have_one_outcome(
    votes: list[bool], lost: float, seed: int
) -> None:
    chance = random.Random(seed)
    participants = {f"p{number}": Participant(f"p{number}", yes) for number, yes in enumerate(votes)}
    machine = TwoPhaseCommit("transfer", list(participants))
    flying: list[Action | Event] = list(machine.start())
    outcomes = set()
    completed = 0
    while flying or not completed:
        message = flying.pop(chance.randrange(len(flying))) if flying else TimedOut()
        if isinstance(message, Completed):
            completed += 1
        elif not isinstance(message, TimedOut) and chance.random() < lost:
            continue
        elif isinstance(message, Prepare | Commit | Rollback):
            answer = participants[message.participant].take(message)
            flying += [answer] * chance.choice([1, 1, 2]) if answer else []
        else:
            flying += machine.on(message)
        outcomes.add(machine.outcome)
    outcomes.discard(None)
    assert outcomes == {machine.outcome}
    assert machine.outcome is ROLLED_BACK or all(votes)
    assert completed == 1
    assert {each.row for each in participants.values()} == {70 if machine.outcome is COMMITTED else 100}
    assert not any(each.locked for each in participants.values())
