from __future__ import annotations

import random

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.ids import CheckpointId
from tidegate.runtime.checkpoint.retention import FileRegistry, Release

FILES = st.frozensets(st.sampled_from("abcdefgh"), max_size=4)


def test_the_newest_settled_stays_even_if_none_are_to_be_retained() -> None:
    registry = FileRegistry(retained=0)
    registry.decided(CheckpointId(1), {"a"})
    registry.decided(CheckpointId(2), {"b"})

    assert registry.settled(CheckpointId(1)) == Release((), frozenset())
    assert registry.settled(CheckpointId(2)) == Release((CheckpointId(1),), frozenset("a"))
    assert registry.checkpoints == (2,)


def test_files_of_a_given_up_checkpoint_go_with_the_next_settlement() -> None:
    registry = FileRegistry(retained=2)
    registry.abandoned(CheckpointId(1), {"a", "b"})
    registry.decided(CheckpointId(2), {"b"})

    assert registry.settled(CheckpointId(2)) == Release((), frozenset("a"))


class Retention(RuleBasedStateMachine):
    """The registry beside a model that knows every file of every checkpoint that is still there.

    As in a run, a checkpoint refers to files of the newest decided one and to its own, under names never used before.
    """

    @initialize(retained=st.integers(0, 3))
    def start(self, retained: int) -> None:
        self.registry = FileRegistry(retained)
        self.retained = retained
        self.held: dict[int, frozenset[str]] = {}
        self.settled: set[int] = set()
        self.released: set[str] = set()
        self.written: set[str] = set()
        self.next_id = 1

    def written_now(self, new: frozenset[str]) -> tuple[CheckpointId, frozenset[str]]:
        checkpoint = CheckpointId(self.next_id)
        self.next_id += 1
        names = frozenset(f"{checkpoint}{name}" for name in new)
        self.written |= names
        return checkpoint, names

    @rule(keep=st.randoms(use_true_random=False), new=FILES)
    def decide(self, keep: random.Random, new: frozenset[str]) -> None:
        before = self.held[max(self.held)] if self.held else frozenset()
        checkpoint, names = self.written_now(new)
        kept = frozenset(name for name in sorted(before) if keep.randrange(10) < 7)
        self.held[checkpoint] = kept | names
        self.registry.decided(checkpoint, self.held[checkpoint])

    @rule(new=FILES)
    def give_up(self, new: frozenset[str]) -> None:
        before = self.held[max(self.held)] if self.held else frozenset()
        checkpoint, names = self.written_now(new)
        self.registry.abandoned(checkpoint, names | before)

    @precondition(lambda self: any(known not in self.settled for known in self.held))
    @rule()
    def settle_the_next(self) -> None:
        checkpoint = min(known for known in self.held if known not in self.settled)
        release = self.registry.settled(CheckpointId(checkpoint))
        self.settled.add(checkpoint)
        for dropped in release.checkpoints:
            assert dropped in self.held, "dropped twice"
            assert dropped < max(self.settled & set(self.held)), (
                "the newest settled or a newer one was dropped"
            )
            del self.held[dropped]
        assert not self.released & release.files, "released twice"
        self.released |= release.files

    @invariant()
    def what_is_referred_to_is_there(self) -> None:
        if hasattr(self, "held"):
            assert all(not self.released & files for files in self.held.values())

    @invariant()
    def as_many_are_kept_as_wanted(self) -> None:
        if hasattr(self, "held") and self.settled:
            unsettled = [known for known in self.held if known not in self.settled]
            assert len(self.held) <= max(self.retained, len(unsettled) + 1) + len(unsettled)

    def teardown(self) -> None:
        """Once everything is settled and the history has moved on, nothing is left that nobody refers to."""
        if not hasattr(self, "held"):
            return
        for _ in range(self.retained + 2):
            checkpoint = CheckpointId(self.next_id)
            self.next_id += 1
            self.held[checkpoint] = frozenset()
            self.registry.decided(checkpoint, ())
        while any(known not in self.settled for known in self.held):
            self.settle_the_next()
        assert self.written - self.released <= frozenset().union(*self.held.values())


TestRetention = Retention.TestCase
TestRetention.settings = settings(stateful_step_count=40)
