"""A job whose checkpoint finds splits with the enumerator, with readers, and on their way in front of and behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from tests.waiting import until
from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.files import FileSink
from tidegate.connectors.spi import EnumeratorContext, NotYet, Poll, ReaderContext, Source, SplitEnumerator
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.ids import CheckpointId, SplitId
from tidegate.runtime.checkpoint.savepoint import open_snapshot

pytestmark = pytest.mark.processes


class Dealt(SplitEnumerator[RangeSplit]):
    """At first gives each of two readers a split, and another one when it is told to; later one by one."""

    def __init__(
        self, context: EnumeratorContext[RangeSplit], splits: Sequence[RangeSplit], place: Path
    ) -> None:
        self.context, self.place = context, place
        self.splits = {split.id: split for split in splits}

    def request(self, reader: int) -> None:
        if free(self.place):
            if self.splits:
                self.give(reader, next(iter(self.splits)))
            else:
                self.context.no_more_splits(reader)
        elif f"Split_{reader}" in self.splits and reader < 2:
            self.give(reader, f"Split_{reader}")

    def reader_event(self, reader: int, event: bytes) -> None:
        self.give(reader, event.decode())
        (self.place / event.decode()).touch()

    def give(self, reader: int, name: str) -> None:
        self.context.assign(reader, [self.splits.pop(SplitId(name))])

    def give_back(self, splits: Sequence[RangeSplit]) -> None:
        self.splits |= {split.id: split for split in splits}

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        return msgspec.msgpack.encode(list(self.splits.values()))

    def pending(self) -> list[SplitId]:
        return list(self.splits)


class Reader(RangeReader):
    """Reads as far as the example says, and asks for more at the moments that it shows."""

    def __init__(self, context: ReaderContext, place: Path) -> None:
        super().__init__(list)
        self.context, self.place = context, place
        self.todo = [self.first, self.second, self.third][context.subtask.index]()

    def poll(self, limit: int) -> Poll:
        if free(self.place):
            return super().poll(limit)
        return next(self.todo) if self._splits or self.context.subtask.index == 2 else NotYet()

    def first(self) -> Any:
        yield self.take("Split_0", 4)
        # While its subtask works on this, Split_2 and then the barrier are on their way to it.
        self.context.send_event(b"Split_2")
        while not triggered(self.place):
            Event().wait(0.01)
        yield from self.rest()

    def second(self) -> Any:
        yield self.take("Split_1", 5)
        self.context.send_event(b"Split_3")
        while len(self._splits) < 2:
            yield NotYet(5)
        yield self.take("Split_3", 4)
        (self.place / "read").touch()
        yield from self.rest()

    def third(self) -> Any:
        yield NotYet()
        while not triggered(self.place):
            yield NotYet(5)
        self.context.send_event(b"Split_4")
        yield from self.rest()

    def rest(self) -> Any:
        while True:
            yield NotYet(5)

    def take(self, name: str, count: int) -> Poll:
        split = next(each for each in self._splits if each.id == name)
        self._splits.remove(split)
        return self._take(split, split.head(count))


@dataclass(frozen=True)
class SixSplits(Source[RangeSplit]):
    """Split n holds the numbers 10 n to 10 n + 9."""

    place: Path
    split_type = RangeSplit
    bounded = True

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> SplitEnumerator[RangeSplit]:
        splits = [RangeSplit(SplitId(f"Split_{n}"), 10 * n, 10 * n + 10) for n in range(6)]
        kept = splits if restored is None else msgspec.msgpack.decode(restored, type=list[RangeSplit])
        return Dealt(context, kept, self.place)

    def open_reader(self, context: ReaderContext) -> Reader:
        return Reader(context, self.place)


def free(place: Path) -> bool:
    return (place / "free").exists()


def triggered(place: Path) -> bool:
    return '"triggered"' in (place / "events").read_text()


@pytest.mark.spec("003/EX-34", "003/SRC-30", "003/SRC-31")
def test_a_job_goes_on_from_a_checkpoint_with_splits_on_their_way_without_losing_or_doubling_one(
    tmp_path: Path,
) -> None:
    def program(**more: str) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": "embedded",
                "parallelism.default": 3,
                "pipeline.progress": "off",
                "pipeline.event-log": str(tmp_path / "events"),
                "state.checkpoints.dir": str(tmp_path / "state"),
                "execution.checkpointing.interval": "1 h",
                **more,
            }
        )
        env.from_source(SixSplits(tmp_path)).uid("numbers").sink_to(FileSink(str(tmp_path / "out"))).uid(
            "files"
        )
        return env

    client = program().execute_async("splits")
    until(lambda: (tmp_path / "read").exists() and (tmp_path / "Split_2").exists(), job=client)
    savepoint = Path(client.trigger_savepoint(str(tmp_path / "savepoints")).result(timeout=60))
    until(lambda: (tmp_path / "Split_4").exists(), job=client)
    client.cancel().result(timeout=60)

    numbers = next(each for each in open_snapshot(savepoint).manifest.operators if each.uid == "numbers")
    assert numbers.coordinator is not None
    waiting = msgspec.msgpack.decode(numbers.coordinator, type=list[RangeSplit])
    assert {split.id for split in waiting} == {"Split_4", "Split_5"}
    held = [msgspec.msgpack.decode(split, type=RangeSplit) for split in numbers.splits]
    assert {split.id: split.next for split in held} == {
        "Split_0": 4,
        "Split_1": 15,
        "Split_2": 20,
        "Split_3": 34,
    }

    (tmp_path / "free").touch()
    program(**{"execution.savepoint.path": str(savepoint)}).execute("splits")
    lines = [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    assert sorted(map(int, lines)) == list(range(60))
