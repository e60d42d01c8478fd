"""Conformance kit for sources: subclass a suite, provide a target, get every clause as a test.

`SourceSuite` is for every source, `RangedSourceSuite` adds the clauses of `SupportsRanges`, `PausingSourceSuite` those of
`SupportsPausing`, `FetchingSourceSuite` those of readers with fetching threads. The suites use the source as a job
does: an enumerator, one or three readers, and restarts that use only the bytes of a checkpoint.

Example:
    class TestNumbers(RangedSourceSuite):
        @pytest.fixture
        def target(self) -> SourceTarget:
            return SourceTarget(CollectionSource(range(20)), expected=range(20))
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

import cloudpickle
import msgspec
import pytest

from tidegate.clock import SYSTEM_CLOCK, Clock, ManualClock
from tidegate.connectors.spi import (
    Finished,
    NotYet,
    ReaderContext,
    Split,
    SupportsPausing,
    SupportsRanges,
)
from tidegate.elements import Batch
from tidegate.errors import TidegateError
from tidegate.ids import OperatorUid, SplitId, Subtask
from tidegate.testing.opened import closing_all
from tidegate.testing.records import same
from tidegate.testing.source_rig import (
    SourceCheckpoint as SourceCheckpoint,
    SourceRig as SourceRig,
    SourceTarget as SourceTarget,
)

__all__ = [
    "FetchingSourceSuite",
    "PausingSourceSuite",
    "RangedSourceSuite",
    "SourceCheckpoint",
    "SourceRig",
    "SourceSuite",
    "SourceTarget",
]

_LONGEST_WAIT_S: Final = 600


class SourceSuite(ABC):
    """The clauses of every source. Subclass it as `Test...` and override `target` as a fixture."""

    @abstractmethod
    def target(self) -> Any:
        """The source and what it must read: at least three different records; a pytest fixture."""

    @pytest.fixture(autouse=True)
    def _nothing_is_left_open(self, target: SourceTarget) -> Iterator[None]:
        """Closes readers and enumerators that a clause left open, and checks that their threads have ended."""
        with closing_all():
            yield

    def test_one_reader_reads_every_record_once(self, target: SourceTarget) -> None:
        """One reader reads every record exactly once; further polls return no records."""
        same(_read_all(target, 1), target.expected)

    def test_three_readers_read_every_record_once(self, target: SourceTarget) -> None:
        """Three readers together read every record exactly once; further polls return no records."""
        same(_read_all(target, 3), target.expected)

    def test_the_description_survives_pickling(self, target: SourceTarget) -> None:
        """A source is sent to other processes: an unpickled copy reads the same."""
        copy = cloudpickle.loads(cloudpickle.dumps(target.source))
        same(_read_all(replace(target, source=copy), 1), target.expected)

    def test_a_restore_at_any_point_neither_loses_nor_repeats(self, target: SourceTarget) -> None:
        """After a crash at any point, the records before the checkpoint and those read after it are all records, once."""
        for cut in range(_size(target) + 1):
            _read_over_a_crash(target, 1, cut, 1)

    def test_a_restore_at_another_parallelism_neither_loses_nor_repeats(self, target: SourceTarget) -> None:
        """The same with more or fewer readers after the restore."""
        for cut in range(_size(target) + 1):
            _read_over_a_crash(target, 1, cut, 3)
            _read_over_a_crash(target, 3, cut, 1)

    def test_an_older_checkpoint_can_be_gone_back_to_again_and_again(self, target: SourceTarget) -> None:
        """Each start from an old savepoint reads all records after it again."""
        first = SourceRig(target, 1)
        before = first.read(1)
        old = first.checkpoint()
        first.read(1)
        newer = SourceRig(target, 1, first.checkpoint())
        newer.read()
        newer.close()
        for readers in (1, 3):
            same(before + _drained(SourceRig(target, readers, old)), target.expected)

    def test_unassigned_splits_survive_a_restore(self, target: SourceTarget) -> None:
        """Splits that are unassigned at the checkpoint are read after the restore."""
        first = SourceRig(target, 3)
        first.request(0)
        checkpoint = first.checkpoint()
        same(_drained(SourceRig(target, 1, checkpoint)), target.expected)

    def test_unread_splits_are_assigned_again(self, target: SourceTarget) -> None:
        """Splits of readers that fail before reading are assigned to other readers."""
        first = SourceRig(target, 3)
        for reader in range(3):
            first.request(reader)
        same(_drained(SourceRig(target, 3, first.checkpoint())), target.expected)

    def test_a_checkpoint_is_not_changed_by_reading_on(self, target: SourceTarget) -> None:
        """A snapshot does not alias the state of the readers."""
        rig = SourceRig(target, 1)
        before = rig.read(1, limit=1)
        splits = rig.splits()
        then = [msgspec.msgpack.encode(split) for split in splits]
        rest = rig.read()
        assert [msgspec.msgpack.encode(split) for split in splits] == then
        same(before + rest, target.expected)

    def test_a_split_is_in_exactly_one_place(self, target: SourceTarget) -> None:
        """For any order of requests, no split is assigned twice."""
        rig = SourceRig(target, 3)
        for reader in (2, 0, 2, 1, 0):
            rig.request(reader)
        held = Counter(split.id for split in rig.splits())
        assert all(count == 1 for count in held.values()), f"splits were assigned twice: {held}"
        same(_drained(rig), target.expected)

    def test_a_wall_clock_that_is_set_back_holds_nothing_up(self, target: SourceTarget) -> None:
        """If the wall clock is set back by an hour repeatedly, the reader continues and reads all records."""
        clock = _ClockSetBack(target.clock or ManualClock(1_000))
        rig = SourceRig(replace(target, clock=clock), 1)
        values: list[Any] = []
        for _ in range(_size(target)):
            clock.set_back()
            values += rig.read(1)
        same(values + _drained(rig), target.expected)

    def test_a_split_of_another_source_is_refused(self, target: SourceTarget) -> None:
        """A checkpoint may hold splits of another source with the same uid, or of a newer version: the restore fails; the
        split is neither read nor dropped."""
        first = SourceRig(target, 1)
        first.request(0)
        checkpoint = first.checkpoint()
        other = {"v": 1, "id": "of another source", "elsewhere": "here"}
        newer = [{**msgspec.msgpack.decode(split), "v": 99} for split in checkpoint.splits[:1]]
        for split in (other, *newer):
            held = replace(checkpoint, splits=(msgspec.msgpack.encode(split),))
            try:
                values = SourceRig(target, 1, held).read()
            except (TidegateError, msgspec.ValidationError):
                continue
            pytest.fail(
                f"split {split} of a checkpoint was accepted, and {len(values)} records were read; expected a "
                "refusal; the fields of a split have no defaults and its tag is its version"
            )

    def test_positions_of_a_split_increase(self, target: SourceTarget) -> None:
        """A batch with positions has one position per record, in increasing order per split."""
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
    """Clauses of `SupportsRanges`: a split can be divided in advance, and each part read separately."""

    def test_bounding_a_split_partitions_it(self, target: SourceTarget) -> None:
        """The parts of a split, each with at most the requested number of records, together are the split."""
        values = [value for part in _parts(target, 2) for value in _read_part(target, part, 2)]
        same(values, target.expected)

    def test_a_bounded_part_reads_the_same_again(self, target: SourceTarget) -> None:
        """Reading a part twice returns the same records in the same order."""
        for part in _parts(target, 2):
            assert _read_part(target, part, 2) == _read_part(target, part, 2)


class PausingSourceSuite(SourceSuite):
    """Clauses of `SupportsPausing`: splits are read independently of each other, with a watermark each."""

    def test_a_batch_names_a_split_that_was_assigned(self, target: SourceTarget) -> None:
        """Every batch names its split, which is one of `unfinished_splits`; these are the splits in a checkpoint."""
        reader, rig = _pausing(target)
        quiet = 0
        while quiet < target.patience:
            unfinished = set(reader.unfinished_splits())
            assert unfinished == {split.id for split in rig.splits()}
            found = rig.poll(0, 2)
            if isinstance(found, Finished):
                break
            quiet += 1
            if isinstance(found, Batch):
                quiet = 0
                assert found.origin is not None, "a batch does not name its split"
                assert found.origin.split in unfinished, (
                    f"split {found.origin.split} was read but is not assigned"
                )
        same((value for batch in rig.batches for value in batch.values), target.expected)

    def test_a_paused_split_waits_and_the_others_continue(self, target: SourceTarget) -> None:
        """A split is read while the others are paused; with all paused, polls return neither records nor the end."""
        reader, rig = _pausing(target)
        for split in list(reader.unfinished_splits()):
            others = [each for each in reader.unfinished_splits() if each != split]
            reader.pause(others)
            for _ in range(2 * _size(target) + target.patience):
                found = rig.poll(0, 2) if split in reader.unfinished_splits() else None
                read = found.origin.split if isinstance(found, Batch) and found.origin else split
                assert read == split, f"split {read!r} is paused, but {found} was read from it"
            if target.source.bounded:
                assert list(reader.unfinished_splits()) == others, (
                    f"split {split!r} was not read while others were paused"
                )
            reader.pause(reader.unfinished_splits())
            assert not reader.unfinished_splits() or isinstance(rig.poll(0, 2), NotYet), (
                "a reader with all splits paused must return NotYet"
            )
        reader.pause([])
        rig.read()
        same((value for batch in rig.batches for value in batch.values), target.expected)


class FetchingSourceSuite(SourceSuite):
    """Clauses of a reader with fetching threads; the target defines how to make a fetch fail."""

    soon_s: ClassVar[float] = 10.0
    """How long a thread may take to end and its reader to report it, on a busy machine."""

    @pytest.mark.parametrize(
        "end",
        [OSError("gone"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()],
        ids=lambda end: type(end).__name__,
    )
    def test_a_fetch_that_ends_on_its_own_fails_a_poll_with_its_name(
        self, target: SourceTarget, end: BaseException
    ) -> None:
        """If a fetch ends with any error, `Exception` or not, a poll soon raises an error that names it: a reader must not
        wait for a dead thread."""
        assert target.ending is not None, "the target cannot make a fetch fail; set SourceTarget.ending"
        rig = SourceRig(replace(target, source=target.ending(end), clock=SYSTEM_CLOCK), 1)
        rig.request(0)
        try:
            failure = _failure_of_poll(rig, self.soon_s)
            assert isinstance(failure, TidegateError), (
                f"a fetch ended with {end!r}, and for {self.soon_s:g} s poll raised {failure!r}; expected an error of tidegate"
            )
            assert type(end).__name__ in str(failure), f"{failure!r} does not name {end!r}"
        finally:
            rig.close()


def _failure_of_poll(rig: SourceRig, seconds: float) -> BaseException | None:
    deadline = SYSTEM_CLOCK.monotonic() + seconds
    while SYSTEM_CLOCK.monotonic() < deadline:
        try:
            rig.poll(0, 1)
        except BaseException as failure:
            return failure
        SYSTEM_CLOCK.sleep(0.005)
    return None


class _ClockSetBack:
    """A clock whose wall time is set back by an hour, also during each wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._back_ms = 0

    def set_back(self) -> None:
        self._back_ms += 3_600_000

    def now_ms(self) -> int:
        return self._clock.now_ms() - self._back_ms

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        assert seconds < _LONGEST_WAIT_S, (
            f"the reader asks to be polled again in {seconds:.0f} s after the wall clock was set back by an hour; "
            "expected it to measure its waiting time with context.clock.monotonic()"
        )
        self._clock.sleep(seconds)
        self.set_back()


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
    """Read one part with a limit larger than the part."""
    clock = target.clock or ManualClock(1_000)
    reader = target.source.open_reader(ReaderContext(OperatorUid("source"), Subtask("source", 0), 1, clock))
    reader.add_splits([part])
    reader.no_more_splits()
    values: list[Any] = []
    for _ in range(records + target.patience):
        found = reader.poll(records + 1)
        if isinstance(found, Batch):
            values.extend(found.values)
        elif isinstance(found, NotYet) and found.after_ms is not None:
            clock.sleep(max(1, found.after_ms) / 1_000)
    reader.close()
    assert len(values) <= records, f"a part of at most {records} records held {len(values)}"
    return values


def _read_all(target: SourceTarget, readers: int) -> list[Any]:
    return _drained(SourceRig(target, readers))


def _read_over_a_crash(target: SourceTarget, readers: int, cut: int, readers_then: int) -> None:
    first = SourceRig(target, readers)
    before = first.read(cut)
    checkpoint = first.checkpoint()
    first.read(2)  # read after the checkpoint and lost with the crash, which closes nothing
    values = before + _drained(SourceRig(target, readers_then, checkpoint))
    when = f"checkpoint after {len(before)} records by {readers} readers, restored with {readers_then}"
    same(values, target.expected, when)


def _drained(rig: SourceRig) -> list[Any]:
    values = rig.read()
    rig.close()
    return values


def _size(target: SourceTarget) -> int:
    return len(list(target.expected))
