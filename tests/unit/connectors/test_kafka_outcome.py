"""What became of a transaction: the machine against a broker that fits on a page, in every order of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tidegate.connectors.kafka.outcome import (
    Conclude,
    End,
    Ended,
    LookAtState,
    Marker,
    MarkerSeen,
    ReadMarker,
    Resolution,
    StateSeen,
)
from tidegate.twophase.spi import Answer, CommitAnswer, Retry

MINE = Marker("1f", 0, 7, "a")
FENCED, INVALID_STATE, LATER = 90, 48, 51

Fate = Literal["prepared", "committed", "expired", "fenced", "forgotten"]


@dataclass
class Broker:
    """One transactional id: what became of our transaction, what came after it, and how busy the coordinator is."""

    fate: Fate
    marker: Marker | None
    busy: int = 0
    ending: int = 0
    id_known: bool = True

    @property
    def visible(self) -> bool:
        return self.fate == "committed"

    def end(self) -> int:
        if self.busy:
            self.busy -= 1
            return LATER
        if self.fate == "prepared":
            self.fate, self.marker = "committed", MINE
            return 0
        return {"committed": 0, "expired": FENCED, "fenced": INVALID_STATE, "forgotten": 49}[self.fate]

    def state(self) -> Literal["ending", "closed", "unknown"]:
        if self.ending:
            self.ending -= 1
            return "ending"
        return "closed" if self.id_known else "unknown"


def resolve(broker: Broker, *, old: bool = False) -> Answer:
    """Run the machine as the committer does."""
    machine = Resolution(MINE, old=old)
    action = machine.start()
    for _ in range(50):
        match action:
            case ReadMarker():
                action = machine.on(MarkerSeen(broker.marker))
            case End():
                action = machine.on(Ended(broker.end()))
            case LookAtState():
                action = machine.on(StateSeen(broker.state()))
            case Conclude():
                return action.answer
    raise AssertionError("the machine does not come to an end")


def test_a_prepared_transaction_is_committed_and_recognised_afterwards() -> None:
    broker = Broker("prepared", None, ending=3)
    assert [resolve(broker) for _ in range(3)] == [
        CommitAnswer.COMMITTED,
        CommitAnswer.ALREADY_COMMITTED,
        CommitAnswer.ALREADY_COMMITTED,
    ]


def test_a_busy_coordinator_is_asked_again_later() -> None:
    broker = Broker("prepared", None, busy=1)
    assert [resolve(broker), resolve(broker)] == [
        Retry("the coordinator did not commit (error 51): another change of the transaction is in progress"),
        CommitAnswer.COMMITTED,
    ]


@pytest.mark.parametrize("fate", ["expired", "fenced"])
def test_the_same_error_means_aborted_or_committed_as_the_marker_says(fate: Fate) -> None:
    assert resolve(Broker(fate, replace(MINE, checkpoint=6))) is CommitAnswer.ABORTED
    assert resolve(Broker(fate, None)) is CommitAnswer.ABORTED
    assert resolve(Broker(fate, MINE)) is CommitAnswer.ALREADY_COMMITTED


def test_the_marker_of_another_attempt_of_the_epoch_is_not_ours() -> None:
    assert resolve(Broker("fenced", replace(MINE, attempt="b"))) is CommitAnswer.ABORTED


def test_what_the_broker_has_forgotten_is_unknown() -> None:
    assert resolve(Broker("forgotten", None, id_known=False)) is CommitAnswer.UNKNOWN
    assert resolve(Broker("expired", None), old=True) is CommitAnswer.UNKNOWN


def test_an_id_that_was_used_again_cannot_tell() -> None:
    assert resolve(Broker("fenced", replace(MINE, checkpoint=9))) is CommitAnswer.UNKNOWN
    assert resolve(Broker("fenced", Marker("other", 0, 9, "a"))) is CommitAnswer.ABORTED


fates = st.sampled_from(["prepared", "committed", "expired", "fenced"])
others = st.none() | st.builds(
    Marker,
    st.sampled_from(["1f", "0e"]),
    st.integers(0, 1),
    st.integers(1, 6),
    st.sampled_from(["a", "b"]),
)


@given(fate=fates, before=others, busy=st.integers(0, 2), ending=st.integers(0, 5), asked=st.integers(1, 5))
def test_no_answer_is_ever_wrong(
    fate: Fate, before: Marker | None, busy: int, ending: int, asked: int
) -> None:
    broker = Broker(fate, MINE if fate == "committed" else before, busy, ending)
    for _ in range(asked):
        answer = resolve(broker)
        if answer in (CommitAnswer.COMMITTED, CommitAnswer.ALREADY_COMMITTED):
            assert broker.visible
        elif answer is CommitAnswer.ABORTED:
            assert not broker.visible
            assert broker.fate != "prepared"
        else:
            assert isinstance(answer, Retry)
