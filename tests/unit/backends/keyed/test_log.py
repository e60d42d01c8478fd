"""What a change log answers, whether it holds all of it in memory or has written some to the local disk."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidegate.backends.keyed.log import ChangeLog, Changes, size_of
from tidegate.backends.keyed.segment import decode_segment
from tidegate.errors import UnavailableError
from tidegate.ids import CheckpointId

ADDRESSES = st.binary(min_size=1, max_size=2)
WRITTEN = st.dictionaries(ADDRESSES, st.none() | st.binary(max_size=40), max_size=4)
NO_LIMIT = 1 << 40


def told(changes: Changes) -> dict[bytes, bytes | None]:
    """What changes come to."""
    found: dict[bytes, bytes | None] = {}
    for part in changes.spilled:
        found.update(decode_segment(part.path.read_bytes(), part.path.name).entries)
    return {**found, **changes.held}


class SpillingLog(RuleBasedStateMachine):
    """A log with little memory beside a list of everything that was written in each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.log = ChangeLog(Path(self.place.name), memory_bytes=1_000)
        self.epochs: list[tuple[int, list[Mapping[bytes, bytes | None]]]] = []
        self.open: list[Mapping[bytes, bytes | None]] = []
        self.number = 0

    @rule(added=WRITTEN)
    def append(self, added: dict[bytes, bytes | None]) -> None:
        self.log.append(added, NO_LIMIT)
        self.open.append(added)

    @rule()
    def close_epoch(self) -> None:
        self.number += 1
        self.log.close_epoch(CheckpointId(self.number))
        self.epochs.append((self.number, self.open))
        self.open = []

    @rule(back=st.integers(0, 3))
    def decide(self, back: int) -> None:
        decided = self.number - back
        self.log.forget(CheckpointId(decided))
        self.epochs = [(number, written) for number, written in self.epochs if number > decided]

    @rule()
    def decline(self) -> None:
        """What is closed and not decided never will be."""
        self.log.merge_declined(None, NO_LIMIT)
        if self.epochs:
            self.epochs = [(self.epochs[-1][0], [added for _, written in self.epochs for added in written])]

    @invariant()
    def everything_since_a_checkpoint_is_told(self) -> None:
        for since in (None, *(number for number, _ in self.epochs)):
            later = [written for number, written in self.epochs if since is None or number > since]
            expected: dict[bytes, bytes | None] = {}
            for added in (added for written in (*later, self.open) for added in written):
                expected.update(added)
            changes = self.log.since(CheckpointId(since) if since is not None else None)
            assert changes is not None
            assert told(changes) == expected
            assert changes.any or not expected

    @invariant()
    def memory_is_bounded(self) -> None:
        changes = self.log.since(None)
        assert changes is not None
        assert size_of(changes.held) + 170 * len(changes.held) <= 1_000

    def teardown(self) -> None:
        self.place.cleanup()


TestSpillingLog = SpillingLog.TestCase


def test_without_a_limit_nothing_leaves_memory(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path)
    for number in range(1_000):
        log.append({b"%d" % number: bytes(100)}, NO_LIMIT)
    changes = log.since(None)
    assert changes is not None
    assert changes.spilled == ()
    assert len(changes.held) == 1_000
    assert list(tmp_path.iterdir()) == []


def test_files_stay_as_long_as_a_checkpoint_that_is_written_needs_them(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path, memory_bytes=1)
    log.append({b"a": b"1"}, NO_LIMIT)
    log.close_epoch(CheckpointId(1))
    being_written = log.since(None)
    assert being_written is not None
    log.forget(CheckpointId(1))
    gc.collect()
    assert told(being_written) == {b"a": b"1"}
    del being_written
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_more_than_the_limit_is_given_up_with_its_files(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path, memory_bytes=1)
    log.append({b"a": bytes(10)}, limit=15)
    log.append({b"b": bytes(10)}, limit=15)
    gc.collect()
    assert log.since(None) is None
    assert log.most_since(None) == 22
    assert list(tmp_path.iterdir()) == []


def test_a_local_disk_that_takes_no_log_is_unavailable(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path / "gone", memory_bytes=1)
    with pytest.raises(
        UnavailableError,
        match=r"cannot write .*log-0 to the local disk: No such file or directory; free space there",
    ):
        log.append({b"a": b"1"}, NO_LIMIT)


def test_declined_epochs_that_are_too_large_together_are_given_up_with_their_files(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path, memory_bytes=1)
    for number in (1, 2):
        log.append({b"%d" % number: bytes(10)}, limit=15)
        log.close_epoch(CheckpointId(number))
    log.merge_declined(None, limit=15)
    gc.collect()
    assert log.since(None) is None
    assert log.kept_bytes == 0
    assert list(tmp_path.iterdir()) == []


def test_declined_epochs_keep_the_last_value_of_a_key(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path)
    for number in range(1, 100):
        log.merge_declined(None, limit=15)
        log.append({b"a": b"%d" % number}, limit=15)
        log.close_epoch(CheckpointId(number))
    assert log.since(None) == Changes((), {b"a": b"99"})
    assert log.kept_bytes < 10
