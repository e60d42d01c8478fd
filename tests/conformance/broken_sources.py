"""Sources with one fault each. Not collected by itself: `test_sources.py` proves that the kit finds every fault."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from tidegate.connectors.base import ListEnumerator, RangeReader, RangeSplit
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import EnumeratorContext, NotYet, Poll, ReaderContext, Source, Split
from tidegate.elements import Batch, Origin
from tidegate.errors import UserCodeError
from tidegate.ids import CheckpointId, SplitId
from tidegate.testing.source import (
    FetchingSourceSuite,
    PausingSourceSuite,
    RangedSourceSuite,
    SourceSuite,
    SourceTarget,
)

_LONG_S = 30.0


class Broken(RangedSourceSuite):
    source: ClassVar[type[CollectionSource]]

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(self.source(range(9)), expected=range(9))


@dataclass(frozen=True, init=False)
class ForgetsPosition(CollectionSource):
    def open_reader(self, context: ReaderContext) -> RangeReader:
        class Reader(RangeReader):
            added: tuple[RangeSplit, ...] = ()

            def add_splits(self, splits: Sequence[RangeSplit]) -> None:
                self.added += tuple(splits)
                super().add_splits(splits)

            def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
                return list(self.added)

        values = self.items()
        return Reader(lambda numbers: values[numbers.start : numbers.stop])


class TestForgetsPosition(Broken):
    source = ForgetsPosition


@dataclass(frozen=True, init=False)
class ForgetsUndealtSplits(CollectionSource):
    def open_enumerator(self, context: EnumeratorContext[RangeSplit], restored: bytes | None) -> Any:
        class Enumerator(ListEnumerator[RangeSplit]):
            def snapshot(self, checkpoint: CheckpointId) -> bytes:
                return msgspec.msgpack.encode({"v": 1, "splits": []})

        deal = super().open_enumerator(context, restored)
        return Enumerator(context, list(deal._pending.values()), RangeSplit)


class TestForgetsUndealtSplits(Broken):
    source = ForgetsUndealtSplits


@dataclass(frozen=True, init=False)
class DealsTwice(CollectionSource):
    def open_enumerator(self, context: EnumeratorContext[RangeSplit], restored: bytes | None) -> Any:
        class Enumerator(ListEnumerator[RangeSplit]):
            def request(self, reader: int) -> None:
                context.assign(reader, list(self._pending.values()))
                context.no_more_splits(reader)

        deal = super().open_enumerator(context, restored)
        return Enumerator(context, list(deal._pending.values()), RangeSplit)


class TestDealsTwice(Broken):
    source = DealsTwice


@dataclass(frozen=True, init=False)
class AliasesItsSnapshot(CollectionSource):
    def open_reader(self, context: ReaderContext) -> RangeReader:
        class Reader(RangeReader):
            def poll(self, limit: int) -> Poll:
                if not self._splits or self._splits[0].done:
                    self._splits.clear()
                    return super().poll(limit)
                split = self._splits[0]
                numbers = split.head(limit)
                msgspec.structs.force_setattr(split, "next", numbers.stop)
                return Batch(self._read(numbers), origin=Origin(split.id, numbers))

        values = self.items()
        return Reader(lambda numbers: values[numbers.start : numbers.stop])


class TestAliasesItsSnapshot(Broken):
    source = AliasesItsSnapshot


@dataclass(frozen=True, init=False)
class OverlapsItsParts(CollectionSource):
    def bound(self, split: RangeSplit, records: int) -> tuple[RangeSplit, RangeSplit | None]:
        part, rest = super().bound(split, records)
        return part, rest and msgspec.structs.replace(rest, next=max(rest.next - 1, split.next + 1))


class TestOverlapsItsParts(Broken):
    source = OverlapsItsParts


@dataclass(frozen=True, init=False)
class GoesOnWhereItLeftOff(CollectionSource):
    """As one that asks the outside where it is."""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        class Reader(RangeReader):
            def add_splits(self, splits: Sequence[RangeSplit]) -> None:
                ends = [split for split in splits if left.get(split.stop, 0) > split.next]
                further = [msgspec.structs.replace(split, next=left[split.stop]) for split in ends]
                super().add_splits([*(split for split in splits if split not in ends), *further])

            def poll(self, limit: int) -> Poll:
                found = super().poll(limit)
                if not self._splits:
                    left.update({9: 9})
                return found

        values = self.items()
        return Reader(lambda numbers: values[numbers.start : numbers.stop])


left: dict[int | None, int] = {}


class TestGoesOnWhereItLeftOff(Broken):
    source = GoesOnWhereItLeftOff


@dataclass(frozen=True, init=False)
class WaitsByTheWallClock(CollectionSource):
    """Gives a record each ten milliseconds."""

    def open_reader(self, context: ReaderContext) -> RangeReader:
        class Reader(RangeReader):
            next_ms = 0

            def poll(self, limit: int) -> Poll:
                wait_ms = self.next_ms - context.clock.now_ms()
                if wait_ms > 0:
                    return NotYet(wait_ms)
                self.next_ms = context.clock.now_ms() + 10
                return super().poll(limit)

        values = self.items()
        return Reader(lambda numbers: values[numbers.start : numbers.stop])


class TestWaitsByTheWallClock(Broken):
    source = WaitsByTheWallClock


class TestIgnoresPauses(PausingSourceSuite):
    @pytest.fixture
    def target(self) -> SourceTarget:
        class Restless(GeneratorSource[int]):
            def open_reader(self, context: ReaderContext) -> RangeReader:
                class Reader(RangeReader):
                    def pause(self, splits: Collection[SplitId]) -> None:
                        return None

                return Reader(list)

        return SourceTarget(Restless(abs, count=9, splits=2), expected=range(9))


@dataclass(frozen=True)
class LosesItsThread(Source[RangeSplit]):
    """Its thread takes what is an `Exception` for the only way to end."""

    end: BaseException | None = None

    split_type = RangeSplit
    bounded = True

    def open_enumerator(self, context: EnumeratorContext[RangeSplit], restored: bytes | None) -> Any:
        return CollectionSource("abc").open_enumerator(context, restored)

    def open_reader(self, context: ReaderContext) -> RangeReader:
        end = self.end

        class Reader(RangeReader):
            failed: Exception | None = None

            def add_splits(self, splits: Sequence[RangeSplit]) -> None:
                threading.Thread(target=self.fetch, daemon=True).start()

            def fetch(self) -> None:
                try:
                    if end is not None:
                        raise end
                except Exception as error:
                    self.failed = error

            def poll(self, limit: int) -> Poll:
                if self.failed is not None:
                    raise UserCodeError(f"a fetch failed: {self.failed!r}")
                return NotYet()

        return Reader(list)


class TestLosesItsThread(FetchingSourceSuite):
    soon_s = 0.5

    @pytest.fixture
    def target(self) -> SourceTarget:
        return SourceTarget(LosesItsThread(), expected="abc", ending=LosesItsThread)


class TestIsNotEvenRanged(RangedSourceSuite):
    @pytest.fixture
    def target(self) -> SourceTarget:
        class Plain(Source[RangeSplit]):
            split_type = RangeSplit
            bounded = True

            def open_enumerator(self, context: EnumeratorContext[RangeSplit], restored: bytes | None) -> Any:
                return CollectionSource("abc").open_enumerator(context, restored)

            def open_reader(self, context: ReaderContext) -> RangeReader:
                return CollectionSource("abc").open_reader(context)

        return SourceTarget(Plain(), expected="abc")


class Lenient(Split, frozen=True, forbid_unknown_fields=False, tag=1):
    """Whatever has an id is one of these."""

    at: int = 0


class TestTakesAnySplitForItsOwn(SourceSuite):
    @pytest.fixture
    def target(self) -> SourceTarget:
        class Reader(RangeReader):
            def add_splits(self, splits: Sequence[Any]) -> None:
                super().add_splits([RangeSplit(split.id, split.at, 9) for split in splits])

            def snapshot(self, checkpoint: CheckpointId) -> list[Any]:
                return [Lenient(split.id, split.next) for split in super().snapshot(checkpoint)]

        class Anything(Source[Lenient]):
            split_type = Lenient
            bounded = True

            def open_enumerator(self, context: EnumeratorContext[Lenient], restored: bytes | None) -> Any:
                return ListEnumerator(context, [Lenient(SplitId("all"))], Lenient, restored)

            def open_reader(self, context: ReaderContext) -> Any:
                return Reader(list)

        return SourceTarget(Anything(), expected=range(9))


class LeavesItsThread(RangeReader):
    def __init__(self) -> None:
        super().__init__(list)
        threading.Thread(target=threading.Event().wait, daemon=True, args=(_LONG_S,)).start()


class TestLeavesItsThread(SourceSuite):
    @pytest.fixture
    def target(self) -> SourceTarget:
        class Leaves(CollectionSource):
            def open_reader(self, context: ReaderContext) -> RangeReader:
                return LeavesItsThread()

        return SourceTarget(Leaves(range(9)), expected=range(9))
