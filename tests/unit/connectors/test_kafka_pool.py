"""The transactional ids of a subtask."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.connectors.kafka.pool import IdPool, id_pattern
from tidegate.errors import UnavailableError

SIZE = 3


class Pool(RuleBasedStateMachine):
    """Ids are taken and given back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = IdPool("orders.sink", 4, SIZE)
        self.taken: list[str] = []

    @precondition(lambda self: len(self.taken) < SIZE)
    @rule()
    def take(self) -> None:
        found = self.pool.take()
        assert found not in self.taken
        assert id_pattern("orders.sink").fullmatch(found)
        self.taken.append(found)

    @precondition(lambda self: len(self.taken) == SIZE)
    @rule()
    def take_too_many(self) -> None:
        with pytest.raises(
            UnavailableError,
            match=r"^kafka sink: all 3 transactional ids of the subtask \(orders.sink-4-0 and",
        ):
            self.pool.take()

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.pool.give_back(self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1))))

    @invariant()
    def few(self) -> None:
        assert len(self.taken) <= SIZE


TestPool = Pool.TestCase


def test_a_slot_is_all_that_its_owner_has() -> None:
    pool = IdPool("orders.sink", 4, SIZE, index=7)
    assert pool.take() == "orders.sink-4-7"
    with pytest.raises(UnavailableError, match="all 1 transactional ids of the subtask"):
        pool.take()


@pytest.mark.parametrize(
    ("prefix", "name", "ours"),
    [
        ("a", "a-0-1", True),
        ("a", "a-10-20", True),
        ("a", "a-b-0-1", False),
        ("a", "aa-0-1", False),
        ("a", "a-0-1-2", False),
        ("a-0", "a-0-1", False),
        ("a.b", "axb-0-1", False),
        ("a", "a-00-1", False),
        ("a", "a-0-1\n", False),
    ],
)
def test_ids_are_ours_by_their_whole_pattern(prefix: str, name: str, ours: bool) -> None:
    assert (id_pattern(prefix).fullmatch(name) is not None) == ours
