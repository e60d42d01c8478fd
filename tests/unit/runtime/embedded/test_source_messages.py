"""Where enumerators and readers live, and that what one says to the other finds it there."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import cloudpickle
import pytest

from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.spi import EnumeratorContext, Poll, ReaderContext, Source, SplitEnumerator
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import Batch
from tidegate.ids import CheckpointId, SplitId


@pytest.fixture(autouse=True)
def classes_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@dataclass(frozen=True)
class Letters(Source[RangeSplit]):
    """A letter for each reader: who sent it, from which process, and to whom."""

    sender: str

    split_type = RangeSplit
    bounded = True

    def open_enumerator(self, context: EnumeratorContext[RangeSplit], restored: bytes | None) -> Sender:
        return Sender(self.sender, context)

    def open_reader(self, context: ReaderContext) -> Receiver:
        return Receiver(self.sender, context)


class Sender(SplitEnumerator[RangeSplit]):
    def __init__(self, name: str, context: EnumeratorContext[RangeSplit]) -> None:
        self.name = name
        self.context = context
        self.unsent = set(range(context.parallelism))

    def request(self, reader: int) -> None:
        if reader in self.unsent:
            self.unsent.remove(reader)
            self.context.assign(reader, [RangeSplit(SplitId(f"{self.name} {os.getpid()} {reader}"), 0, 1)])
        else:
            self.context.no_more_splits(reader)

    def give_back(self, splits: Sequence[RangeSplit]) -> None:
        raise AssertionError("nothing fails here")

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        return b""

    def pending(self) -> Collection[SplitId]:
        return []


class Receiver(RangeReader):
    """Shows each letter with who received it, in which process."""

    def __init__(self, name: str, context: ReaderContext) -> None:
        super().__init__(list)
        self.who = (name, context.subtask.index, os.getpid())

    def poll(self, limit: int) -> Poll:
        found = super().poll(limit)
        if isinstance(found, Batch) and found.origin is not None:
            return Batch([(str(found.origin.split), *self.who)], origin=found.origin)
        return found


@pytest.mark.processes
@pytest.mark.spec("003/SRC-10", "003/SRC-13", "003/SRC-16", "003/SRC-17", "003/SRC-18")
def test_what_an_enumerator_here_assigns_is_read_by_that_reader_in_its_own_process() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "embedded", "parallelism.default": 2, "pipeline.progress": "off"}
    )
    ada, bob = (env.from_source(Letters(name), source_name=name) for name in ("ada", "bob"))

    read = list(ada.union(bob).execute_and_collect())

    assert sorted((letter, name, reader) for letter, name, reader, _ in read) == [
        (f"{name} {os.getpid()} {reader}", name, reader) for name in ("ada", "bob") for reader in (0, 1)
    ]
    processes = {reader: {process for _, _, index, process in read if index == reader} for reader in (0, 1)}
    assert [len(each) for each in processes.values()] == [1, 1]
    assert len({os.getpid()} | processes[0] | processes[1]) == 3
