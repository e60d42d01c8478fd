"""What was fetched ahead, and how far each split is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.connectors.base import Fetched, RangeSplit
from tidegate.connectors.base.fetch_queue import FetchQueue
from tidegate.elements import Batch
from tidegate.errors import UserCodeError
from tidegate.ids import SplitId

A, B = SplitId("a"), SplitId("b")


def fetched(split: RangeSplit, records: int) -> Fetched[RangeSplit]:
    part, rest = split.cut(records)
    numbers = part.head(records)
    return Fetched(split, list(numbers), numbers, rest, [10 * number for number in numbers])


def behind(split: RangeSplit, number: int) -> RangeSplit:
    return RangeSplit(split.id, number + 1, split.stop)


def filled(*splits: RangeSplit, records: int = 3, depth: int = 2) -> FetchQueue[RangeSplit]:
    queue = FetchQueue[RangeSplit](behind, depth)
    queue.add(splits)
    for split in splits:
        queue.put(fetched(split, records))
    return queue


def taken(queue: FetchQueue[RangeSplit], limit: int = 10) -> list[Any]:
    batch = queue.take(limit)
    return [] if batch is None else batch.rows()


@pytest.mark.spec("003/SRC-24", "003/SRC-25", "003/SRC-28")
def test_a_fetch_goes_out_in_batches_and_the_state_of_its_split_moves_with_each() -> None:
    queue = filled(RangeSplit(A, 0, 9), records=5)

    batches = [queue.take(2) for _ in range(2)]

    assert [batch and (batch.values, batch.timestamps) for batch in batches] == [
        ([0, 1], [0, 10]),
        ([2, 3], [20, 30]),
    ]
    assert [batch and batch.origin and list(batch.origin.positions) for batch in batches] == [[0, 1], [2, 3]]
    assert queue.states() == [RangeSplit(A, 4, 9)]
    assert queue.wanted() == [RangeSplit(A, 5, 9)]


def test_a_split_of_which_enough_waits_is_wanted_again_once_a_fetch_of_it_was_taken() -> None:
    queue = filled(RangeSplit(A, 0, 9), RangeSplit(B, 0, 9), depth=1)

    assert queue.wanted() == []
    assert taken(queue, 2) == [0, 1]
    assert queue.wanted() == []
    assert taken(queue) == [2]
    assert queue.wanted() == [RangeSplit(A, 3, 9)]


def test_what_waits_of_a_paused_split_keeps_no_other_from_being_read() -> None:
    queue = filled(RangeSplit(A, 0, 9), RangeSplit(B, 0, 9))
    queue.pause([A])

    assert [taken(queue), taken(queue)] == [[0, 1, 2], []]
    assert queue.wanted() == [RangeSplit(B, 3, 9)]
    queue.pause([])
    assert taken(queue) == [0, 1, 2]


def test_a_split_stays_until_its_last_record_is_taken() -> None:
    queue = filled(RangeSplit(A, 0, 3))

    assert (queue.ended(A), queue.wanted()) == (True, [])
    assert [taken(queue, 2), queue.states()] == [[0, 1], [RangeSplit(A, 2, 3)]]
    assert [taken(queue, 2), queue.states()] == [[2], []]


def test_a_gap_moves_a_split_and_an_end_without_records_ends_it() -> None:
    queue = FetchQueue[RangeSplit](behind, 2)
    split = RangeSplit(A, 0, None)
    queue.add([split])

    queue.put(Fetched(split, [], [], RangeSplit(A, 7, None)))
    assert (queue.states(), queue.wanted()) == ([split], [RangeSplit(A, 7, None)])
    assert queue.take(1) is None
    assert queue.states() == [RangeSplit(A, 7, None)]
    queue.put(Fetched(RangeSplit(A, 7, None), [], [], None))
    assert queue.take(1) is None
    assert queue.states() == []


@pytest.mark.parametrize("split", [A, B], ids=["read to its end", "never added"])
def test_records_nobody_asked_for_are_refused(split: SplitId) -> None:
    queue = filled(RangeSplit(A, 0, 3))

    with pytest.raises(
        UserCodeError, match=f"of split '{split}', which is not assigned or was read to its end; got 2"
    ):
        queue.put(fetched(RangeSplit(split, 0, 2), 2))


class QueueMachine(RuleBasedStateMachine):
    """Fetching, taking, pausing and going back to a checkpoint, against the numbers each split holds."""

    def __init__(self) -> None:
        super().__init__()
        self.splits = {
            name: RangeSplit(SplitId(name), 100 * at, 100 * at + 7 * at) for at, name in enumerate("abcd", 1)
        }
        self.read: dict[str, list[int]] = {name: [] for name in self.splits}
        self.paused: Sequence[SplitId] = ()
        self.checkpoint = (list(self.splits.values()), {name: list[int]() for name in self.splits})
        self.begin(list(self.splits.values()))

    def begin(self, splits: list[RangeSplit]) -> None:
        self.queue = FetchQueue[RangeSplit](behind, 2)
        self.queue.add(splits)
        self.queue.pause(self.paused)

    @rule(which=st.integers(0, 3), records=st.integers(1, 5))
    def fetch(self, which: int, records: int) -> None:
        if wanted := self.queue.wanted():
            split = wanted[which % len(wanted)]
            assert split.id not in self.paused
            self.queue.put(fetched(split, records))

    @rule(limit=st.integers(1, 4))
    def take(self, limit: int) -> None:
        batch = self.queue.take(limit)
        if isinstance(batch, Batch):
            assert batch.origin is not None
            assert 0 < len(batch) <= limit
            assert batch.origin.split not in self.paused
            assert list(batch.origin.positions) == batch.values
            self.read[batch.origin.split] += batch.values

    @rule(paused=st.lists(st.sampled_from("abcd").map(SplitId)))
    def pause(self, paused: list[SplitId]) -> None:
        self.paused = paused
        self.queue.pause(paused)

    @rule()
    def snapshot(self) -> None:
        self.checkpoint = (self.queue.states(), {name: list(read) for name, read in self.read.items()})

    @rule()
    def crash(self) -> None:
        states, read = self.checkpoint
        self.read = {name: list(values) for name, values in read.items()}
        self.begin(states)

    @invariant()
    def every_number_was_read_or_is_ahead_of_its_state(self) -> None:
        states = {split.id: split for split in self.queue.states()}
        for name, split in self.splits.items():
            ahead = list(states[split.id].head(1_000)) if name in states else []
            assert self.read[name] + ahead == list(split.head(1_000))


TestQueueMachine = QueueMachine.TestCase
