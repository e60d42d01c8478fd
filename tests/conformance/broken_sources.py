"""Sources with one fault each. Not collected by itself: `test_sources.py` proves that the kit finds every fault."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from tidegate.connectors.base import ListEnumerator, RangeReader, RangeSplit
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import EnumeratorContext, Poll, ReaderContext, Source
from tidegate.elements import Batch, Origin
from tidegate.ids import CheckpointId, SplitId
from tidegate.testing.source import PausingSourceSuite, RangedSourceSuite, SourceTarget


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
