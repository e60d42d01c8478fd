"""Splits on their way between an enumerator and its readers, and what a checkpoint says of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tidegate.connectors.base import RangeReader, RangeSplit
from tidegate.connectors.spi import EnumeratorContext, ReaderContext, Source, SplitEnumerator
from tidegate.elements import Batch
from tidegate.errors import ConfigError, InternalError, StateFormatError, UnavailableError
from tidegate.ids import Branch, CheckpointId, LineageId, OperatorUid, PipelineId, RunId, SplitId
from tidegate.runtime.checkpoint.manifest import Manifest, OperatorState
from tidegate.runtime.enumerators import Enumerators
from tidegate.runtime.graph.job_graph import JobGraph, JobVertex
from tidegate.runtime.graph.transformations import Transformation
from tidegate.runtime.job import Program
from tidegate.runtime.operators.environment import OperatorReport
from tidegate.runtime.operators.stamp import SOURCE
from tidegate.runtime.options import JobOptions

UID = OperatorUid("numbers")
NOW = CheckpointId(1)


class OneByOne(SplitEnumerator[RangeSplit]):
    """Gives whoever asks the next split."""

    def __init__(self, context: EnumeratorContext[RangeSplit], splits: Sequence[RangeSplit]) -> None:
        self.context = context
        self.splits = deque(splits)

    def request(self, reader: int) -> None:
        if self.splits:
            self.context.assign(reader, [self.splits.popleft()])
        else:
            self.context.no_more_splits(reader)

    def give_back(self, splits: Sequence[RangeSplit]) -> None:
        self.splits.extend(splits)

    def snapshot(self, checkpoint: CheckpointId) -> bytes:
        return msgspec.msgpack.encode(list(self.splits))

    def pending(self) -> Collection[SplitId]:
        return [split.id for split in self.splits]


@dataclass(frozen=True)
class SixSplits(Source[RangeSplit]):
    """Split n holds the numbers 10 n to 10 n + 9."""

    split_type = RangeSplit
    bounded = True

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> SplitEnumerator[RangeSplit]:
        splits = [RangeSplit(SplitId(f"Split_{n}"), 10 * n, 10 * n + 10) for n in range(6)]
        return OneByOne(
            context, splits if restored is None else msgspec.msgpack.decode(restored, type=list[RangeSplit])
        )

    def open_reader(self, context: ReaderContext) -> RangeReader:
        return RangeReader(list)


def graph(source: Source[Any]) -> JobGraph:
    step = Transformation(SOURCE, "numbers", source, uid=UID)
    return Program("job", PipelineId("job"), (step,), JobOptions(), 3).graph(None)


class Wire:
    """What was sent to three readers and has not arrived; a barrier is on its way like everything else."""

    def __init__(self, source: Source[Any], manifest: Manifest | None = None) -> None:
        self.looks: list[str | None] = []
        self.enumerators = Enumerators(
            graph(source), manifest, self.sent, lambda uid, reason: self.looks.append(reason)
        )
        self.readers = [RangeReader(list) for _ in range(3)]
        self.received = [0, 0, 0]
        self.on_the_way: list[deque[tuple[bytes, ...] | str | None]] = [deque(), deque(), deque()]
        self.reports: list[OperatorReport] = []

    def sent(self, vertex: JobVertex, reader: int, splits: tuple[bytes, ...] | None) -> None:
        self.on_the_way[reader].append(splits)

    def arrive(self, reader: int, messages: int = 1) -> None:
        for _ in range(messages):
            match self.on_the_way[reader].popleft():
                case "barrier":
                    held = self.readers[reader].snapshot(NOW)
                    encoded = tuple(map(msgspec.msgpack.encode, held))
                    self.reports.append(OperatorReport(UID, reader, splits=encoded))
                case None:
                    self.readers[reader].no_more_splits()
                case splits:
                    self.received[reader] += 1
                    self.readers[reader].add_splits([decoded(split) for split in splits])

    def ask(self, reader: int) -> None:
        self.enumerators.request(UID, reader, self.received[reader])

    def trigger(self) -> bytes:
        coordinator = self.enumerators.snapshot(NOW)[UID]
        for queue in self.on_the_way:
            queue.append("barrier")
        return coordinator

    def read(self, reader: int, records: int) -> list[int]:
        found = self.readers[reader].poll(records)
        return list(found.values) if isinstance(found, Batch) else []


def names(enumerator: bytes) -> set[str]:
    return {split.id for split in msgspec.msgpack.decode(enumerator, type=list[RangeSplit])}


def decoded(split: Any) -> RangeSplit:
    return msgspec.msgpack.decode(split, type=RangeSplit)


@pytest.mark.spec("003/EX-34", "003/SRC-30", "003/SRC-31", "003/SRC-14")
def test_splits_in_front_of_a_checkpoint_are_with_readers_and_those_behind_it_with_the_enumerator() -> None:
    wire = Wire(SixSplits())
    wire.ask(0)
    wire.ask(1)
    wire.arrive(0)  # Split_0
    wire.arrive(1)  # Split_1
    before = wire.read(0, 4) + wire.read(1, 2)
    wire.ask(0)  # Split_2 is on its way, in front of the barrier
    wire.ask(1)
    wire.arrive(1)  # Split_3
    before += wire.read(1, 3) + wire.read(1, 4)

    enumerator = wire.trigger()
    wire.ask(2)  # the third reader asks, and Split_4 is on its way behind the barrier
    wire.arrive(0, 2)
    wire.arrive(1)
    wire.arrive(2)
    wire.enumerators.reported(wire.reports)

    assert names(enumerator) == {"Split_5", "Split_4"}
    assert len(wire.on_the_way[2]) == 1
    assert {split.id: split.next for report in wire.reports for split in map(decoded, report.splits)} == {
        "Split_0": 4,
        "Split_1": 15,
        "Split_3": 34,
        "Split_2": 20,
    }
    assert sorted(before + restored(enumerator, wire.reports)) == list(range(60))


def restored(enumerator: bytes, reports: list[OperatorReport]) -> list[int]:
    """Everything that is read by who goes on from there."""
    splits = tuple(split for report in reports for split in report.splits)
    state = OperatorState(UID, "numbers", 3, 128, coordinator=enumerator, splits=splits)
    manifest = Manifest(
        PipelineId("job"),
        LineageId("1"),
        Branch(0),
        RunId("r"),
        NOW,
        None,
        0,
        operators=(state,),
        unsettled=(),
    )
    again = Wire(SixSplits(), manifest)
    values: list[int] = []
    for _ in range(4):
        for reader in range(3):
            again.ask(reader)
            again.arrive(reader, len(again.on_the_way[reader]))
            values += again.read(reader, 100)
    return values


def test_a_request_that_crossed_an_assignment_is_not_heard() -> None:
    wire = Wire(SixSplits())
    wire.ask(0)
    wire.ask(0)

    assert len(wire.on_the_way[0]) == 1
    wire.arrive(0)
    wire.ask(0)
    assert len(wire.on_the_way[0]) == 1


def test_a_split_in_two_places_ends_the_attempt_before_anything_is_written() -> None:
    wire = Wire(SixSplits())
    wire.ask(0)
    wire.arrive(0)
    wire.trigger()
    wire.arrive(0)
    twice = [*wire.reports, OperatorReport(UID, 1, splits=wire.reports[0].splits)]

    with pytest.raises(
        InternalError, match=r"source 'numbers': splits \['Split_0'\] are reported by reader 1"
    ):
        wire.enumerators.reported(twice)


def test_an_enumerator_cannot_send_events_to_readers_that_do_not_stay() -> None:
    wire = Wire(SixSplits())
    enumerator = wire.enumerators._enumerators[UID]
    assert isinstance(enumerator, OneByOne)

    with pytest.raises(
        ConfigError, match=r"its enumerator sends a source event, but on Spark .* set continuous = True"
    ):
        enumerator.context.send_event(0, b"wait")


class Looking(OneByOne):
    """Looks for more each second; what it finds is scripted."""

    discovery_interval_ms = 1_000

    def __init__(self, context: EnumeratorContext[RangeSplit], script: Sequence[Any]) -> None:
        super().__init__(context, ())
        self.script = deque(script)
        self.refused: Sequence[str] = ()

    def discover(self) -> Sequence[str]:
        found = self.script.popleft()
        if isinstance(found, Exception):
            raise found
        return list(found)

    def discovered(self, found: Sequence[str]) -> None:
        self.refused = found

    def left_out(self) -> Sequence[str]:
        return self.refused


@dataclass(frozen=True)
class Scripted(SixSplits):
    """A source whose looks are scripted: what each leaves out, or how it fails."""

    script: tuple[Any, ...] = ()

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> SplitEnumerator[RangeSplit]:
        return Looking(context, self.script)


def test_a_look_that_fails_or_leaves_something_out_is_told_and_done_again() -> None:
    many = [f"/data/{name}" for name in "abcde"]
    wire = Wire(Scripted((UnavailableError("no broker answers"), many, [])))
    for second in range(4):
        wire.enumerators.look(1_000 * second)

    assert wire.looks == [
        None,
        "no broker answers",
        "skipped without read permission: /data/a, /data/b, /data/c and 2 more",
        None,
    ]


def test_a_look_that_cannot_be_mended_by_waiting_ends_the_attempt() -> None:
    wire = Wire(Scripted((ConfigError("'/data/a' cannot be read"),)))
    wire.enumerators.look(0)

    with pytest.raises(ConfigError, match="'/data/a' cannot be read"):
        wire.enumerators.look(1_000)


class Sparing(SixSplits):
    """Has nothing for the last reader so far, and more may come."""

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> SplitEnumerator[RangeSplit]:
        given = super().open_enumerator(context, restored)
        assert isinstance(given, OneByOne)
        request = given.request
        given.request = lambda reader: request(reader) if reader < 2 else None  # type: ignore[method-assign]
        return given


def test_who_asks_for_the_first_time_hears_that_there_is_nothing_so_far() -> None:
    wire = Wire(Sparing())
    wire.ask(0)
    wire.ask(2)
    assert (len(wire.on_the_way[0]), list(wire.on_the_way[2])) == (1, [()])

    wire.arrive(2)
    wire.ask(2)
    assert list(wire.on_the_way[2]) == []


def test_an_event_for_an_enumerator_that_takes_none_names_it() -> None:
    with pytest.raises(
        ConfigError, match="reader 1 sent a source event; OneByOne has no method reader_event; implement it"
    ):
        Wire(SixSplits()).enumerators.reader_event(UID, 1, b"hello")


def test_a_checkpoint_with_splits_of_another_source_under_the_same_uid_is_refused_with_the_way_out() -> None:
    page = msgspec.msgpack.encode({"v": 1, "id": "Split_0", "page": 3})
    state = OperatorState(UID, "numbers", 3, 128, coordinator=msgspec.msgpack.encode([]), splits=(page,))
    before = Manifest(
        PipelineId("job"),
        LineageId("1"),
        Branch(0),
        RunId("r"),
        NOW,
        None,
        0,
        operators=(state,),
        unsettled=(),
    )

    with pytest.raises(
        StateFormatError,
        match=r"(?s)source 'numbers': cannot decode a split .*RangeSplit as SixSplits writes it.*a new uid",
    ):
        Wire(SixSplits(), before)


class Away(SixSplits):
    """Its system does not answer."""

    def open_enumerator(
        self, context: EnumeratorContext[RangeSplit], restored: bytes | None
    ) -> SplitEnumerator[RangeSplit]:
        given = super().open_enumerator(context, restored)

        def start() -> None:
            raise UnavailableError("no answer")

        given.start, given.close = start, lambda: closed.append(context.owner)  # type: ignore[method-assign]
        return given


closed: list[str] = []


def test_an_enumerator_that_does_not_start_is_closed() -> None:
    with pytest.raises(UnavailableError, match="no answer"):
        Wire(Away())
    assert closed == [""]
