"""A split is in exactly one place, whatever is done to it; anything else is noticed before it is written."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.errors import InternalError
from tidegate.runtime.checkpoint.split_ledger import SplitLedger


@pytest.fixture
def ledger() -> SplitLedger:
    """Reader 0 has a and b, the enumerator has c."""
    ledger = SplitLedger("orders")
    ledger.assign(0, ["a", "b"])
    ledger.cut(["c"])
    return ledger


def test_a_split_given_to_a_second_reader_is_named(ledger: SplitLedger) -> None:
    with pytest.raises(
        InternalError,
        match=r"source 'orders': splits \['b'\] are assigned although a reader already has them",
    ):
        ledger.assign(1, ["b", "c"])


def test_a_split_that_is_with_the_enumerator_and_with_a_reader_is_named(ledger: SplitLedger) -> None:
    with pytest.raises(
        InternalError, match=r"splits \['a'\] are with the enumerator although a reader has them"
    ):
        ledger.cut(["a", "c"])


def test_a_split_the_enumerator_has_twice_is_named(ledger: SplitLedger) -> None:
    with pytest.raises(InternalError, match=r"splits \['c', 'c'\] are with the enumerator more than once"):
        ledger.cut(["c", "c"])


def test_a_split_the_enumerator_forgot_is_named(ledger: SplitLedger) -> None:
    with pytest.raises(
        InternalError, match=r"splits \['c'\] are neither with the enumerator nor assigned; expected each"
    ):
        ledger.cut([])


def test_a_split_reported_by_another_reader_is_named(ledger: SplitLedger) -> None:
    with pytest.raises(
        InternalError, match=r"splits \['b'\] are reported by reader 1, to which they were not assigned"
    ):
        ledger.report({0: ["a"], 1: ["b"]})


def test_a_split_reported_twice_is_named(ledger: SplitLedger) -> None:
    with pytest.raises(InternalError, match=r"splits \['a', 'a'\] are reported by reader 0 more than once"):
        ledger.report({0: ["a", "a"]})


def test_a_split_assigned_behind_the_checkpoint_is_not_in_it(ledger: SplitLedger) -> None:
    ledger.assign(1, ["c"])

    with pytest.raises(InternalError, match=r"splits \['c'\] are reported by reader 1"):
        ledger.report({0: ["a", "b"], 1: ["c"]})


def test_what_was_read_to_its_end_may_be_read_again_until_that_is_decided(ledger: SplitLedger) -> None:
    ledger.report({0: ["a"]})
    ledger.cut(["c"])
    ledger.report({0: ["a", "b"]})
    ledger.report({0: ["a"]})
    ledger.decided()
    ledger.cut(["c"])

    with pytest.raises(InternalError, match=r"splits \['b'\] are reported by reader 0"):
        ledger.report({0: ["a", "b"]})


def test_an_enumerator_that_cannot_name_what_it_has_is_asked_for_less(ledger: SplitLedger) -> None:
    silent = SplitLedger("silent")
    silent.assign(0, ["a"])
    silent.cut(None)
    silent.report({0: ["a"]})

    with pytest.raises(InternalError, match="source 'silent'"):
        silent.assign(1, ["a"])


class RightfulMoves(RuleBasedStateMachine):
    """A source without faults: the ledger has nothing to say, and knows where everything is."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = SplitLedger("source")
        self.pending = {f"split {number}" for number in range(8)}
        self.readers: dict[int, set[str]] = {0: set(), 1: set()}
        self.ended: set[str] = set()

    @rule(reader=st.integers(0, 1), count=st.integers(1, 3))
    def deal(self, reader: int, count: int) -> None:
        given = sorted(self.pending)[:count]
        self.ledger.assign(reader, given)
        self.pending.difference_update(given)
        self.readers[reader].update(given)

    @precondition(lambda self: any(self.readers.values()))
    @rule(data=st.data())
    def read_to_the_end(self, data: st.DataObject) -> None:
        reader, split = data.draw(
            st.sampled_from([(r, s) for r, splits in self.readers.items() for s in sorted(splits)])
        )
        self.readers[reader].discard(split)
        self.ended.add(split)

    @rule(behind=st.booleans(), counts=st.booleans())
    def checkpoint(self, behind: bool, counts: bool) -> None:
        self.ledger.cut(self.pending)
        reports = {reader: set(splits) for reader, splits in self.readers.items()}
        if behind:
            self.deal(0, 1)
        self.ledger.report(reports)
        if counts:
            self.ledger.decided()

    @invariant()
    def every_split_is_somewhere(self) -> None:
        places = [self.pending, *self.readers.values(), self.ended]
        assert sum(map(len, places)) == len(set().union(*places)) == 8


TestRightfulMoves = RightfulMoves.TestCase
