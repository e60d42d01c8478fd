"""An enumerator and its readers against a set: whatever happens, every record is read once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidegate.connectors.generator import GeneratorSource
from tidegate.elements import Batch
from tidegate.testing.source import SourceCheckpoint, SourceRig, SourceTarget

readers = st.integers(0, 2)


class SourceMachine(RuleBasedStateMachine):
    """Requests, polls, checkpoints, crashes and rescaling in any order."""

    rig: SourceRig
    target: SourceTarget
    checkpoint: SourceCheckpoint
    count: int
    read: list[Any]
    read_at_checkpoint: list[Any]

    @initialize(count=st.integers(0, 20), splits=st.integers(1, 6), parallelism=st.integers(1, 3))
    def start(self, count: int, splits: int, parallelism: int) -> None:
        self.count = count
        self.target = SourceTarget(GeneratorSource(int, count, splits), expected=range(count))
        self.rig = SourceRig(self.target, parallelism)
        self.read = []
        self.take_checkpoint()

    @rule(reader=readers)
    def request(self, reader: int) -> None:
        self.rig.request(reader % self.rig.parallelism)

    @rule(reader=readers, limit=st.integers(1, 5))
    def poll(self, reader: int, limit: int) -> None:
        found = self.rig.poll(reader % self.rig.parallelism, limit)
        if isinstance(found, Batch):
            self.read += found.values

    @rule()
    def take_checkpoint(self) -> None:
        self.checkpoint = self.rig.checkpoint()
        self.read_at_checkpoint = list(self.read)

    @rule(parallelism=st.integers(1, 3))
    def crash_and_restore(self, parallelism: int) -> None:
        self.rig = SourceRig(self.target, parallelism, self.checkpoint)
        self.read = list(self.read_at_checkpoint)

    @invariant()
    def nothing_is_read_twice(self) -> None:
        assert all(times == 1 for times in Counter(self.read).values())

    @invariant()
    def no_split_is_at_two_readers(self) -> None:
        assert all(times == 1 for times in Counter(split.id for split in self.rig.splits()).values())

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            assert sorted(self.read + self.rig.read()) == list(range(self.count))


TestSourceMachine = SourceMachine.TestCase
