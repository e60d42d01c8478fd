"""What enumerators and readers of one source tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.connectors.base import ListEnumerator, RangeReader, RangeSplit
from tidegate.connectors.spi import EnumeratorContext, NotYet, Poll, ReaderContext, Source
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.errors import ConfigError
from tidegate.ids import SplitId

Env = StreamExecutionEnvironment


@dataclass(frozen=True)
class Waiting(Source[RangeSplit]):
    """Two splits of which the second is not read until the enumerator has heard what the first one's sum is."""

    listens: bool = True

    split_type = RangeSplit
    bounded = True
    continuous = True

    def open_enumerator(self, context: EnumeratorContext[RangeSplit], restored: bytes | None) -> Any:
        splits = [RangeSplit(SplitId("first"), 0, 5), RangeSplit(SplitId("second"), 0, 1)]
        return Relay(context, splits, RangeSplit, restored)

    def open_reader(self, context: ReaderContext) -> Any:
        return (Adder if self.listens else Deaf)(context)


class Relay(ListEnumerator[RangeSplit]):
    def reader_event(self, reader: int, event: bytes) -> None:
        for each in range(self._context.parallelism):
            self._context.send_event(each, event)


class Deaf(RangeReader):
    def __init__(self, context: ReaderContext) -> None:
        super().__init__(lambda numbers: [self.told] if self.told else list(numbers))
        self.context = context
        self.told = 0
        self.kept: list[RangeSplit] = []

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        wait = [split for split in splits if split.id == "second" and not self.told]
        self.kept += wait
        super().add_splits([split for split in splits if split not in wait])

    def poll(self, limit: int) -> Poll:
        found = super().poll(limit)
        if isinstance(found, Batch) and not self.told:
            self.context.send_event(str(sum(found.values)).encode())
        return NotYet() if self.kept and not isinstance(found, Batch) else found

    def snapshot(self, checkpoint: Any) -> list[RangeSplit]:
        return super().snapshot(checkpoint) + self.kept


class Adder(Deaf):
    def event(self, event: bytes) -> None:
        self.told = int(event)
        super(Deaf, self).add_splits(self.kept)
        self.kept = []


@pytest.mark.spec("003/SRC-15")
def test_an_enumerator_makes_a_reader_wait_until_another_one_has_told_it_something(anywhere: Env) -> None:
    values = anywhere.from_source(Waiting(), source_name="waiting").execute_and_collect()

    assert sorted(values) == [0, 1, 2, 3, 4, 10]


def test_an_event_for_a_reader_that_takes_none_names_it(anywhere: Env) -> None:
    with pytest.raises(
        ConfigError,
        match=r"source 'waiting-1': its enumerator sent a source event; Deaf has no method event; implement it",
    ):
        list(anywhere.from_source(Waiting(listens=False), source_name="waiting").execute_and_collect())
