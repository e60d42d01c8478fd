"""The conformance kit for sources: subclass a suite, give it a target, get every clause as a test.

`SourceSuite` is for every source, `RangedSourceSuite` adds what `SupportsRanges` promises, `PausingSourceSuite` what
`SupportsPausing` of its readers does. The suites drive the
source as a job does: an enumerator, one or three readers, checkpoints whose bytes alone survive a restart.

Example:
    class TestNumbers(RangedSourceSuite):
        @pytest.fixture
        def target(self) -> SourceTarget:
            return SourceTarget(CollectionSource(range(20)), expected=range(20))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import msgspec

from tidegate.clock import Clock, ManualClock
from tidegate.connectors.spi import (
    Finished,
    NotYet,
    Poll,
    ReaderContext,
    Source,
    SourceReader,
    Split,
    SupportsEvents,
    SupportsPausing,
    SupportsPending,
    SupportsRanges,
    SupportsReaderEvents,
)
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, OperatorUid, SplitId, Subtask
from tidegate.runtime.checkpoint.split_ledger import SplitLedger

__all__ = [
    "PausingSourceSuite",
    "RangedSourceSuite",
    "SourceCheckpoint",
    "SourceRig",
    "SourceSuite",
    "SourceTarget",
]


@dataclass(frozen=True)
class SourceTarget:
    """What is tested: a source, and what it must read, found out without it."""

    source: Source[Any]
    expected: Iterable[Any]
    patience: int = 3
    """After how many fruitless rounds an unbounded source counts as quiet."""
    clock: Clock | None = None
    """The machine's for a source that waits for another system; None for one that jumps to when a reader wants to be
    asked again."""


@dataclass(frozen=True)
class SourceCheckpoint:
    """All that survives a crash."""

    enumerator: bytes
    splits: tuple[bytes, ...]


class SourceRig:
    """Runs a source as a coordinator and its subtasks do, in one thread and with a clock of its own.

    It checks on the way that a split is in one place at a time and that polls keep their limit.
    """

    def __init__(
        self, target: SourceTarget, readers: int = 1, restored: SourceCheckpoint | None = None
    ) -> None:
        self.parallelism = readers
        self.batches: list[Batch] = []
        self._target = target
        self._source = target.source
        self._clock = target.clock or ManualClock(1_000)
        self._ledger = SplitLedger("source")
        self._complete: set[int] = set()
        self._readers = [self._source.open_reader(self._context(index)) for index in range(readers)]
        self._enumerator = self._source.open_enumerator(self, restored.enumerator if restored else None)
        self._enumerator.start()
        if restored:
            self._enumerator.give_back([self._decoded(data) for data in restored.splits])

    def assign(self, reader: int, splits: Sequence[Any]) -> None:
        """Hand splits to a reader."""
        self._ledger.assign(reader, [split.id for split in splits])
        self._readers[reader].add_splits([self._decoded(msgspec.msgpack.encode(split)) for split in splits])

    def no_more_splits(self, reader: int) -> None:
        """Hand on the promise."""
        self._complete.add(reader)
        self._readers[reader].no_more_splits()

    def send_event(self, reader: int, event: bytes) -> None:
        """Tell a reader what its enumerator says."""
        receiver = self._readers[reader]
        assert isinstance(receiver, SupportsEvents), "an event was sent to a reader that takes none"
        receiver.event(event)

    def request(self, reader: int) -> None:
        """Let a reader ask for work."""
        self._enumerator.request(reader)

    def poll(self, reader: int, limit: int) -> Poll:
        """One poll of one reader; a reader that runs dry asks for work."""
        found = self._readers[reader].poll(limit)
        if isinstance(found, Batch):
            assert 0 < len(found) <= limit, f"poll({limit}) returned {len(found)} records"
            self.batches.append(found)
        elif isinstance(found, NotYet):
            if reader not in self._complete and found.until_ms is None:
                self.request(reader)
            if found.until_ms is not None:
                self._clock.sleep(max(1, found.until_ms - self._clock.now_ms()) / 1_000)
        return found

    def read(self, records: int | None = None, limit: int = 3) -> list[Any]:
        """Values read in turn by all readers: so many, or until nothing comes any more."""
        values: list[Any] = []
        finished: set[int] = set()
        quiet = 0
        while len(finished) < self.parallelism and quiet < self._target.patience:
            quiet += 1
            for index in sorted(set(range(self.parallelism)) - finished):
                wanted = limit if records is None else min(limit, records - len(values))
                if wanted == 0:
                    return values
                found = self.poll(index, wanted)
                if isinstance(found, Batch):
                    values.extend(found.values)
                    quiet = 0
                elif isinstance(found, Finished):
                    finished.add(index)
        if self._source.bounded and records is None:
            assert len(finished) == self.parallelism, "a bounded source did not say that it has finished"
        return values

    def checkpoint(self) -> SourceCheckpoint:
        """What a checkpoint at this moment holds: each split once."""
        number = CheckpointId(1)
        own = self._enumerator
        self._ledger.cut(own.pending() if isinstance(own, SupportsPending) else None)
        enumerator = own.snapshot(number)
        held = [reader.snapshot(number) for reader in self._readers]
        self._ledger.report({index: [split.id for split in splits] for index, splits in enumerate(held)})
        return SourceCheckpoint(
            enumerator, tuple(msgspec.msgpack.encode(split) for splits in held for split in splits)
        )

    def reader(self, index: int) -> SourceReader[Any]:
        """One of the readers."""
        return self._readers[index]

    def splits(self) -> list[Any]:
        """Every split the readers hold."""
        return [split for reader in self._readers for split in reader.snapshot(CheckpointId(1))]

    def close(self) -> None:
        """Release everything."""
        for reader in self._readers:
            reader.close()
        self._enumerator.close()

    def _context(self, index: int) -> ReaderContext:
        return ReaderContext(
            OperatorUid("source"),
            Subtask("source", index),
            self.parallelism,
            self._clock,
            send_event=lambda event: self._heard(index, event),
        )

    def _heard(self, reader: int, event: bytes) -> None:
        receiver = self._enumerator
        assert isinstance(receiver, SupportsReaderEvents), (
            "an event was sent to an enumerator that takes none"
        )
        receiver.reader_event(reader, event)

    def _decoded(self, data: bytes) -> Split:
        return msgspec.msgpack.decode(data, type=self._source.split_type)


class SourceSuite(ABC):
    """Every clause a source owes. Subclass it as `Test...` and override `target` as a fixture."""

    @abstractmethod
    def target(self) -> Any:
        """The source and what it must read: at least three different records; a pytest fixture."""

    def test_one_reader_reads_every_record_once(self, target: SourceTarget) -> None:
        """One reader reads every record exactly once, and reading on brings nothing."""
        _same(_read_all(target, 1), target.expected)

    def test_three_readers_read_every_record_once(self, target: SourceTarget) -> None:
        """Three readers together read every record exactly once, and reading on brings nothing."""
        _same(_read_all(target, 3), target.expected)

    def test_the_description_survives_pickling(self, target: SourceTarget) -> None:
        """A source is sent to other processes: its copy reads the same."""
        copy = cloudpickle.loads(cloudpickle.dumps(target.source))
        _same(_read_all(replace(target, source=copy), 1), target.expected)

    def test_a_restore_at_any_point_neither_loses_nor_repeats(self, target: SourceTarget) -> None:
        """After a crash anywhere, what was read up to the checkpoint and what is read from it are all records."""
        for cut in range(_size(target) + 1):
            _same(_read_over_a_crash(target, 1, cut, 1), target.expected)

    def test_a_restore_at_another_parallelism_neither_loses_nor_repeats(self, target: SourceTarget) -> None:
        """The same if the job comes back with more readers, or with fewer."""
        for cut in range(_size(target) + 1):
            _same(_read_over_a_crash(target, 1, cut, 3), target.expected)
            _same(_read_over_a_crash(target, 3, cut, 1), target.expected)

    def test_an_older_checkpoint_can_be_gone_back_to_again_and_again(self, target: SourceTarget) -> None:
        """From an old savepoint everything behind it is read, by each branch that begins there, whatever was read since."""
        first = SourceRig(target, 1)
        before = first.read(1)
        old = first.checkpoint()
        first.read(1)
        newer = SourceRig(target, 1, first.checkpoint())
        newer.read()
        newer.close()
        for readers in (1, 3):
            _same(before + _drained(SourceRig(target, readers, old)), target.expected)

    def test_splits_nobody_was_given_survive_a_restore(self, target: SourceTarget) -> None:
        """Splits that wait for a reader at the checkpoint are read after it."""
        first = SourceRig(target, 3)
        first.request(0)
        checkpoint = first.checkpoint()
        _same(_drained(SourceRig(target, 1, checkpoint)), target.expected)

    def test_splits_given_back_unread_are_dealt_again(self, target: SourceTarget) -> None:
        """Splits taken by readers that die before reading are read by others."""
        first = SourceRig(target, 3)
        for reader in range(3):
            first.request(reader)
        _same(_drained(SourceRig(target, 3, first.checkpoint())), target.expected)

    def test_a_checkpoint_is_not_changed_by_reading_on(self, target: SourceTarget) -> None:
        """A snapshot does not alias what the readers go on with."""
        rig = SourceRig(target, 1)
        before = rig.read(1, limit=1)
        splits = rig.splits()
        then = [msgspec.msgpack.encode(split) for split in splits]
        rest = rig.read()
        assert [msgspec.msgpack.encode(split) for split in splits] == then
        _same(before + rest, target.expected)

    def test_a_split_is_in_exactly_one_place(self, target: SourceTarget) -> None:
        """Whoever asks in whatever order: no split is given to two readers, asking again brings none twice."""
        rig = SourceRig(target, 3)
        for reader in (2, 0, 2, 1, 0):
            rig.request(reader)
        held = Counter(split.id for split in rig.splits())
        assert all(count == 1 for count in held.values()), f"held twice: {held}"
        _same(_drained(rig), target.expected)

    def test_positions_of_a_split_increase(self, target: SourceTarget) -> None:
        """A batch that says where it was read names one position per record, in increasing order per split."""
        rig = SourceRig(target, 3)
        rig.read()
        read: defaultdict[SplitId, list[int]] = defaultdict(list)
        for batch in rig.batches:
            if batch.origin is not None:
                assert len(batch.origin.positions) == len(batch)
                read[batch.origin.split].extend(batch.origin.positions)
        for split, positions in read.items():
            assert positions == sorted(set(positions)), f"split {split} was read at {positions}"


class RangedSourceSuite(SourceSuite):
    """What `SupportsRanges` adds: a split can be cut in advance and each part read on its own."""

    def test_bounding_a_split_partitions_it(self, target: SourceTarget) -> None:
        """The parts of a split, each of at most the asked records, are together the split."""
        values = [value for part in _parts(target, 2) for value in _read_part(target, part, 2)]
        _same(values, target.expected)

    def test_a_bounded_part_reads_the_same_again(self, target: SourceTarget) -> None:
        """A part read twice brings the same records in the same order."""
        for part in _parts(target, 2):
            assert _read_part(target, part, 2) == _read_part(target, part, 2)


class PausingSourceSuite(SourceSuite):
    """What `SupportsPausing` adds: splits that are read independently of each other, with a time each."""

    def test_a_batch_is_of_a_split_that_was_at_hand(self, target: SourceTarget) -> None:
        """Every batch names its split, which was at hand before; what is at hand is what a checkpoint would hold."""
        reader, rig = _pausing(target)
        while True:
            at_hand = set(reader.at_hand())
            assert at_hand == {split.id for split in rig.splits()}
            found = rig.poll(0, 2)
            if isinstance(found, Finished):
                break
            if isinstance(found, Batch):
                assert found.origin is not None, "a batch does not say of which split it is"
                assert found.origin.split in at_hand, f"split {found.origin.split} was read but not at hand"
        _same((value for batch in rig.batches for value in batch.values), target.expected)

    def test_a_paused_split_waits_and_the_others_go_on(self, target: SourceTarget) -> None:
        """Of two splits each is read to its end while the other waits; with all paused nothing comes, nor the end."""
        reader, rig = _pausing(target)
        for split in list(reader.at_hand()):
            others = [each for each in reader.at_hand() if each != split]
            reader.pause(others)
            for _ in range(2 * _size(target) + target.patience):
                if split in reader.at_hand():
                    rig.poll(0, 2)
            assert list(reader.at_hand()) == others
            reader.pause(others)
            assert not others or isinstance(rig.poll(0, 2), NotYet), (
                "a paused reader did not say that it waits"
            )
        reader.pause([])
        rig.read()
        _same((value for batch in rig.batches for value in batch.values), target.expected)


def _pausing(target: SourceTarget) -> tuple[SupportsPausing, SourceRig]:
    rig = SourceRig(target, 1)
    rig.request(0)
    reader = rig.reader(0)
    assert isinstance(reader, SupportsPausing), "the reader does not support pausing; use SourceSuite"
    return reader, rig


def _parts(target: SourceTarget, records: int) -> list[Split]:
    source = target.source
    assert isinstance(source, SupportsRanges), "the source does not support ranges; use SourceSuite"
    rig = SourceRig(target, 1)
    rig.request(0)
    parts: list[Split] = []
    for split in rig.splits():
        rest: Split | None = split
        while rest is not None:
            part, rest = source.bound(rest, records)
            parts.append(part)
    return parts


def _read_part(target: SourceTarget, part: Split, records: int) -> list[Any]:
    """Read one part with a limit that would allow more than it may hold."""
    clock = target.clock or ManualClock(1_000)
    reader = target.source.open_reader(ReaderContext(OperatorUid("source"), Subtask("source", 0), 1, clock))
    reader.add_splits([part])
    reader.no_more_splits()
    values: list[Any] = []
    for _ in range(records + target.patience):
        found = reader.poll(records + 1)
        if isinstance(found, Batch):
            values.extend(found.values)
        elif isinstance(found, NotYet) and found.until_ms is not None:
            clock.sleep(max(1, found.until_ms - clock.now_ms()) / 1_000)
    reader.close()
    assert len(values) <= records, f"a part of at most {records} records held {len(values)}"
    return values


def _read_all(target: SourceTarget, readers: int) -> list[Any]:
    return _drained(SourceRig(target, readers))


def _read_over_a_crash(target: SourceTarget, readers: int, cut: int, readers_then: int) -> list[Any]:
    first = SourceRig(target, readers)
    before = first.read(cut)
    checkpoint = first.checkpoint()
    first.read(2)  # read after the checkpoint and lost with the crash, which closes nothing
    return before + _drained(SourceRig(target, readers_then, checkpoint))


def _drained(rig: SourceRig) -> list[Any]:
    values = rig.read()
    rig.close()
    return values


def _size(target: SourceTarget) -> int:
    return len(list(target.expected))


def _same(values: Iterable[Any], expected: Iterable[Any]) -> None:
    """Equal as multisets, types included."""
    found, wanted = (Counter(f"{type(v).__name__} {v!r}" for v in some) for some in (values, expected))
    assert found == wanted, f"lost: {dict(wanted - found)}; too many: {dict(found - wanted)}"
