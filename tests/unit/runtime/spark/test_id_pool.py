"""No two executions of a subtask have the same names outside, whatever Spark begins again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, strategies as st

from tidegate.backends.storage import MemoryStorage
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId, RunId, Subtask
from tidegate.runtime.spark.id_pool import IdClaims, is_first_execution
from tidegate.runtime.spark.shape import Shape

RUN = RunId("run")
HERE = Subtask("totals/by user", 0)
SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(
    lambda sizes: Shape(
        tuple(tuple(Subtask(f"v{level}", n) for n in range(size)) for level, size in enumerate(sizes))
    )
)
OFTEN = 3
"""One time of so many something goes wrong, as long as anything may."""


@dataclass
class Spark:
    """How Spark runs the levels of an epoch: a failed task again within its level, and what is lost of the level before."""

    shape: Shape
    since: int
    chance: Random
    mishaps: int
    foreign: float = 0.0
    begun: int = field(init=False)
    outputs: list[dict[int, int]] = field(init=False)
    firsts: Counter[Subtask] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.begun = self.since
        self.outputs = [{} for _ in self.shape.levels]
        if self.chance.random() < self.foreign:
            self.begun += self.chance.randint(1, 5)  # somebody else's

    def run(self) -> None:
        """Run until the last level is through."""
        while not self.is_through(len(self.outputs) - 1):
            self.run_level(len(self.outputs) - 1)

    def run_level(self, level: int) -> None:
        """One go at what a level lacks."""
        while level and not self.is_through(level - 1):
            self.run_level(level - 1)
        missing = [n for n in range(len(self.shape.levels[level])) if n not in self.outputs[level]]
        todo = [(partition, 0) for partition in missing]
        while todo:
            partition, attempt = todo.pop(self.chance.randrange(len(todo)))
            execution = self.begin(level, partition, attempt)
            if level and self.goes_wrong():
                # What it was to read is gone: who has begun goes on, nobody else begins, and the level comes again.
                self.lose(level - 1)
                return
            if self.goes_wrong():
                todo.append((partition, attempt + 1))
            else:
                self.outputs[level][partition] = execution
        if level and self.goes_wrong():
            self.lose(self.chance.randrange(level))

    def begin(self, level: int, partition: int, attempt: int) -> int:
        """An execution, which looks at once whether it is the first."""
        self.begun += 1
        senders = self.outputs[level - 1].values() if level else ()
        subtask = self.shape.levels[level][partition]
        self.firsts[subtask] += is_first_execution(
            self.shape, self.since, level, self.begun, attempt, senders
        )
        return self.begun

    def lose(self, level: int) -> None:
        """Something that was sent is gone."""
        found = self.outputs[level]
        for partition in self.chance.sample(
            sorted(found), self.chance.randint(1, len(found)) if found else 0
        ):
            del found[partition]

    def is_through(self, level: int) -> bool:
        """Whether all that a level has sent is there."""
        return len(self.outputs[level]) == len(self.shape.levels[level])

    def goes_wrong(self) -> bool:
        """Whether something does, now."""
        wrong = self.mishaps > 0 and self.chance.randrange(OFTEN) == 0
        self.mishaps -= wrong
        return wrong


@given(SHAPES, st.integers(0, 1_000), st.randoms(use_true_random=False), st.integers(1, 6))
def test_two_executions_of_a_subtask_are_never_both_the_first(
    shape: Shape, since: int, chance: Random, mishaps: int
) -> None:
    spark = Spark(shape, since, chance, mishaps, foreign=0.2)
    spark.run()

    assert max(spark.firsts.values()) <= 1


def test_who_repeats_a_level_that_was_broken_off_is_known_by_what_it_reads() -> None:
    shape = Shape(((Subtask("read", 0),), tuple(Subtask("sum", n) for n in range(4))))

    assert is_first_execution(shape, 69, level=1, execution=71, attempt=0, senders=[70])
    # The reader was repeated as 72, before the other three subtasks had begun.
    assert not is_first_execution(shape, 69, level=1, execution=73, attempt=0, senders=[72])


@given(SHAPES, st.integers(0, 1_000), st.randoms(use_true_random=False))
def test_where_nothing_goes_wrong_all_are_the_first_in_any_order(
    shape: Shape, since: int, chance: Random
) -> None:
    spark = Spark(shape, since, chance, mishaps=0)
    spark.run()

    assert set(spark.firsts.values()) == {1}


@given(st.integers(1, 1_000), st.integers(1, 7), st.integers(0, 3))
def test_neither_executions_nor_epochs_that_follow_each_other_share_a_slot(
    checkpoint: int, later: int, copies: int
) -> None:
    storage = MemoryStorage()
    here, there = (
        IdClaims(storage, RUN, CheckpointId(number)) for number in (checkpoint, checkpoint + later)
    )
    taken = [claims.of(HERE, first=first) for claims in (here, there) for first in [True, *[False] * copies]]

    assert len(set(taken)) == 2 * (1 + copies)
    assert all(0 <= index < 64 for index in taken)


def test_nothing_is_written_for_who_is_the_first() -> None:
    storage = MemoryStorage()
    claims = IdClaims(storage, RUN, CheckpointId(9))

    assert claims.of(HERE, first=True) == 8
    assert storage.blobs.list("") == []
    assert claims.of(HERE, first=False) == 9
    assert storage.blobs.list("") != []
    claims.clear()
    assert storage.blobs.list("") == []


def test_who_finds_all_of_them_taken_says_so() -> None:
    claims = IdClaims(MemoryStorage(), RUN, CheckpointId(1))
    for _ in range(7):
        claims.of(HERE, first=False)

    with pytest.raises(
        UnavailableError,
        match=r"totals/by user\[0\] was started more than 7 times in one epoch, so all ids that its",
    ):
        claims.of(HERE, first=False)
