"""What a source task reads of what it is given, what it sends, and what it leaves to the next epoch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from tests.unit.runtime.spark.orders import epoch_order
from tidegate.backends.storage import MemoryStorage
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.base import Fetched, Fetcher, FetchingReader, ListEnumerator, RangeSplit
from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.spi import NotYet, Source, SourceReader
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.elements import MAX_WATERMARK, Batch, Element, EndOfInput, Idle, Watermark
from tidegate.errors import ConfigError, InternalError, StateFormatError, UnavailableError
from tidegate.ids import CheckpointId, OperatorUid, PipelineId, SplitId, Subtask
from tidegate.runtime.checkpoint.protocol import Ack, Decline
from tidegate.runtime.graph.job_graph import JobGraph
from tidegate.runtime.job import Program
from tidegate.runtime.operators.environment import RestoredOperator
from tidegate.runtime.options import JobOptions
from tidegate.runtime.spark import tasks
from tidegate.runtime.spark.epoch_runner import DeclinedError, StateFiles, reports_of
from tidegate.runtime.spark.messages import ReadOrder, TaskResult
from tidegate.runtime.spark.restore_routing import with_starts
from tidegate.runtime.stream.watermarks import WatermarkGenerator
from tidegate.runtime.task.frames import EdgeCodec, Frame
from tidegate.runtime.task.messages import ToEnumerator
from tidegate.untyped import PickledValueWarning

SPLIT = RangeSplit(SplitId("0/1"), 10, 1_000)
TIMES = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


@dataclass
class Done:
    """What has become of one source task."""

    result: TaskResult
    sent: list[Element]

    @property
    def values(self) -> list[Any]:
        return [value for batch in self.sent if isinstance(batch, Batch) for value in batch.values]

    @property
    def watermarks(self) -> list[int]:
        return [element.timestamp for element in self.sent if isinstance(element, Watermark)]

    @property
    def positions(self) -> list[int]:
        splits = [split for report in self.result.reports for split in report.splits]
        return [msgspec.msgpack.decode(split, type=RangeSplit).next for split in splits]

    @property
    def splits(self) -> list[RangeSplit]:
        splits = [split for report in self.result.reports for split in report.splits]
        return [msgspec.msgpack.decode(split, type=RangeSplit) for split in splits]

    @property
    def restored(self) -> dict[OperatorUid, RestoredOperator]:
        found: dict[OperatorUid, Any] = {}
        for report in self.result.reports:
            if report.time is not None:
                found[report.uid] = RestoredOperator(times=(report.time,), parallelism=1)
        return found


class Reading:
    """A program that reads numbers, and sends them on by one exchange."""

    def __init__(
        self,
        rate: float | None = None,
        watermarks: WatermarkStrategy | None = None,
        source: Source[Any] | None = None,
    ) -> None:
        env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 1})
        numbers = GeneratorSource(lambda number: number, count=1_000, rate_per_second=rate)
        env.from_source(source or numbers, watermarks).uid("numbers").rebalance().print()
        program = Program("reads", PipelineId("reads"), tuple(env._steps), JobOptions(), parallelism=1)
        self.graph: JobGraph = program.graph(None)

    def read(
        self,
        limit: int,
        *splits: RangeSplit,
        complete: bool = True,
        until_ms: int | None = None,
        after: Done | None = None,
        now_ms: int = 0,
        thorough: bool = False,
        ending: bool = False,
        confirmed: CheckpointId | None = None,
    ) -> Done:
        """One epoch."""
        (subtask,) = self.graph.vertices["numbers"].subtasks
        restored = {subtask: after.restored} if after is not None else {}
        order = replace(epoch_order(self.graph, now_ms=now_ms), confirmed=confirmed)
        encoded = tuple(map(msgspec.msgpack.encode, splits))
        read = ReadOrder(subtask, encoded, complete, limit, until_ms, thorough, ending)
        reads = with_starts(order.shape, restored, [read])
        ((_, parcel),) = tasks.relay(order, 0, 0, reads)
        (outcome,) = parcel.outcomes
        if outcome.result.error is not None:
            raise outcome.result.error
        (edge,) = self.graph.vertices["numbers"].outputs
        frames = [msgspec.msgpack.decode(frame, type=Frame) for _, sent in parcel.frames for frame in sent]
        return Done(outcome.result, [EdgeCodec(edge).element(frame) for frame in frames])


@pytest.fixture(autouse=True)
def a_task_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_task_id", lambda: 7)


def test_reading_stops_at_the_limit_and_says_where_it_stands() -> None:
    done = Reading().read(5, SPLIT)

    assert done.values == [10, 11, 12, 13, 14]
    assert (done.result.records, done.positions) == (5, [15])
    assert EndOfInput() not in done.sent


def test_reading_to_the_end_of_the_last_split_ends_time_and_says_so() -> None:
    done = Reading().read(2_000, SPLIT)

    assert done.values == list(range(10, 1_000))
    assert (done.result.records, done.positions) == (990, [])
    assert done.sent[-2:] == [Watermark(MAX_WATERMARK), EndOfInput()]


def test_reading_that_ends_at_the_limit_has_ended() -> None:
    assert Reading().read(990, SPLIT).sent[-1] == EndOfInput()


def test_who_has_ended_says_so_in_each_epoch() -> None:
    done = Reading().read(0, complete=True)

    assert done.sent == [Watermark(MAX_WATERMARK), EndOfInput()]


def test_event_time_comes_to_its_end_where_that_is_asked_for_and_positions_stay() -> None:
    done = Reading(watermarks=TIMES).read(0, SPLIT, ending=True)

    assert done.sent == [Watermark(MAX_WATERMARK), EndOfInput()]
    assert done.positions == [10]


def test_who_goes_on_after_event_time_was_ended_begins_it_anew() -> None:
    reading = Reading(watermarks=TIMES)
    ended = reading.read(5, SPLIT, ending=True)

    done = reading.read(5, *ended.splits, after=ended)

    assert done.values == [15, 16, 17, 18, 19]
    assert max(done.watermarks) < MAX_WATERMARK


def test_a_thorough_reader_waits_after_each_record_for_the_next_one() -> None:
    done = Reading(rate=5).read(4, SPLIT, thorough=True)

    assert done.values == [10, 11, 12, 13]


@pytest.mark.parametrize("splits", [(), (SPLIT,)], ids=["without-splits", "with-a-split"])
def test_who_may_get_more_splits_has_not_ended(splits: tuple[RangeSplit, ...]) -> None:
    done = Reading().read(2_000, *splits, complete=False)

    assert (done.positions, done.result.wake_ms) == ([], None)
    assert EndOfInput() not in done.sent


def test_nothing_is_read_when_nothing_may_be() -> None:
    done = Reading().read(0, SPLIT)

    assert (done.values, done.result.records, done.positions) == ([], 0, [10])


def test_a_paced_source_is_waited_for_half_a_second_and_no_longer() -> None:
    done = Reading(rate=100).read(2_000, SPLIT)

    # All of it would take ten seconds; a busy machine may see more than the fifty of half a second.
    assert 20 <= len(done.values) <= 300
    assert done.positions == [10 + len(done.values)]
    assert done.result.wake_ms is not None


def test_event_time_goes_on_where_the_epoch_before_left_it() -> None:
    reading = Reading(watermarks=TIMES)
    first = reading.read(5, SPLIT)
    silent = reading.read(0, *first.splits, after=first)
    second = reading.read(5, *silent.splits, after=silent)

    assert first.watermarks == [13]
    assert silent.watermarks == [13], "those behind it are told where it is"
    assert second.watermarks == [13, 18]
    assert second.sent[0] == Watermark(13)


def test_event_time_that_has_ended_is_not_kept() -> None:
    done = Reading(watermarks=TIMES).read(2_000, SPLIT)

    assert done.watermarks[-1] == MAX_WATERMARK
    assert done.restored == {}


class EveryThird(WatermarkGenerator):
    """Tells of time with each third record."""

    asked = "record"

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, value: Any, timestamp: int) -> None:
        self.seen += 1
        self.told = timestamp if self.seen % 3 == 0 else None

    def watermark(self) -> int | None:
        return self.told


def test_what_a_generator_has_counted_goes_on() -> None:
    strategy = WatermarkStrategy.for_generator(EveryThird).with_timestamp_assigner(lambda value, _: value)
    reading = Reading(watermarks=strategy)
    first = reading.read(2, SPLIT)
    second = reading.read(2, *first.splits, after=first)

    assert (first.watermarks, second.watermarks) == ([], [12])


class Sample:
    """Of a class that nobody registered."""

    def __init__(self) -> None:
        self.told: int | None = None


class Sampling(EveryThird):
    """Keeps what it has seen in an object of its own, and works with something that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.sample = Sample()

    def open(self, clock: Any) -> None:
        self.lines = (line for line in "abc")

    def on_event(self, value: Any, timestamp: int) -> None:
        super().on_event(value, timestamp)
        self.sample.told = timestamp if self.seen % 3 == 0 else self.sample.told

    def watermark(self) -> int | None:
        return self.sample.told


def test_what_a_generator_keeps_in_an_object_goes_on_by_pickle_with_a_warning_that_names_it() -> None:
    strategy = WatermarkStrategy.for_generator(Sampling).with_timestamp_assigner(lambda value, _: value)
    reading = Reading(watermarks=strategy)
    with pytest.warns(
        PickledValueWarning, match="generator Sampling: attribute 'sample' holds a Sample and is"
    ):
        first = reading.read(3, SPLIT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PickledValueWarning)
        second = reading.read(1, *first.splits, after=first)

    assert (first.watermarks, second.watermarks) == ([12], [12])
    (kept,) = second.restored[OperatorUid("numbers")].times[0].splits
    assert {"seen", "sample"} <= kept.learnt.keys()
    assert "lines" not in kept.learnt


class Unkeepable(EveryThird):
    """Counts in what no process can hand to another."""

    def on_event(self, value: Any, timestamp: int) -> None:
        super().on_event(value, timestamp)
        self.rest = (number for number in range(self.seen))


def test_what_a_generator_has_learnt_and_cannot_be_carried_fails_the_job_at_the_first_epoch() -> None:
    strategy = WatermarkStrategy.for_generator(Unkeepable).with_timestamp_assigner(lambda value, _: value)

    with pytest.raises(
        ConfigError,
        match="generator Unkeepable: attribute 'rest' has become a generator, which cannot be pickled and would be lost",
    ):
        Reading(watermarks=strategy).read(2, SPLIT)


def test_a_source_is_idle_once_it_was_asked_for_long_enough() -> None:
    reading = Reading(watermarks=TIMES.with_idleness(Duration.of_seconds(2)))
    first = reading.read(1, SPLIT, now_ms=1_000)
    waiting = reading.read(0, *first.splits, after=first, now_ms=2_999)
    idle = reading.read(0, *waiting.splits, after=waiting, now_ms=3_000)
    again = reading.read(1, *idle.splits, after=idle, now_ms=9_000)

    assert (first.result.wake_ms, waiting.result.wake_ms) == (2_000, 1)
    assert Idle(True) not in waiting.sent
    assert Idle(True) in idle.sent
    assert Idle(True) not in again.sent, "it had a record before anybody asked how long it was silent"


def test_a_source_reads_no_further_than_its_group_allows() -> None:
    aligned = TIMES.with_watermark_alignment("all", Duration.of_millis(100))
    reading = Reading(watermarks=aligned)

    unknown = reading.read(1_000, SPLIT)
    allowed = reading.read(1_000, *unknown.splits, after=unknown, until_ms=300)

    assert len(unknown.values) == 16, "a batch, as long as nobody knows where the others are"
    assert unknown.result.time == 24
    assert allowed.values[-1] == 10 + 2 * 256 - 1


def test_a_part_of_a_checkpoint_that_could_not_be_taken_is_an_error_of_the_task() -> None:
    declined = Decline(Subtask("in", 0), CheckpointId(1), UnavailableError("the disk is full"))

    damaged = replace(declined, error=StateFormatError("too large"))

    with pytest.raises(DeclinedError, match="the disk is full"):
        reports_of([declined])
    with pytest.raises(StateFormatError, match="too large"):
        reports_of([damaged])
    with pytest.raises(
        InternalError, match="a subtask has not taken its part of the checkpoint; expected it to"
    ):
        reports_of([])


def test_state_that_the_storage_does_not_give_declines_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = MemoryStorage().blobs
    files = StateFiles(blobs, "run/shared", inline_threshold=0)
    chunk = files.store(b"all there is")
    assert files.fetch(chunk) == b"all there is"

    def unanswered(name: str) -> BinaryIO:
        raise UnavailableError("nobody answers")

    monkeypatch.setattr(blobs, "open", unanswered)

    with pytest.raises(DeclinedError, match="nobody answers"):
        files.fetch(chunk)


def test_what_a_reader_tells_an_enumerator_that_cannot_hear_it_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="source 'numbers': reader 2 sends an event, and readers live no longer"
    ):
        reports_of(
            [ToEnumerator(OperatorUid("numbers"), 2, b"found"), Ack(Subtask("in", 0), CheckpointId(1), ())]
        )


class Confirming(Source[RangeSplit]):
    """A split that has nothing to read, and a reader that writes down what it is told."""

    split_type = RangeSplit
    bounded = False

    def __init__(self, book: Path) -> None:
        self.book = book

    def open_enumerator(self, context: Any, restored: bytes | None) -> ListEnumerator[RangeSplit]:
        return ListEnumerator(context, [SPLIT], RangeSplit, restored)

    def open_reader(self, context: Any) -> ConfirmingReader:
        return ConfirmingReader(self.book)


class ConfirmingReader(SourceReader[RangeSplit]):
    def __init__(self, book: Path) -> None:
        self.book, self.splits = book, list[RangeSplit]()
        self.noted: dict[CheckpointId, list[int]] = {}

    def add_splits(self, splits: Sequence[RangeSplit]) -> None:
        self.splits += splits

    def no_more_splits(self) -> None:
        """It has no end."""

    def poll(self, limit: int) -> NotYet:
        return NotYet()

    def snapshot(self, checkpoint: CheckpointId) -> list[RangeSplit]:
        self.noted[checkpoint] = [split.next for split in self.splits]
        return self.splits

    def settled(self, checkpoint: CheckpointId) -> None:
        self.book.write_text(f"{checkpoint}: {self.noted[checkpoint]}")


def test_a_new_reader_tells_the_outside_where_it_begins_once_that_is_settled(tmp_path: Path) -> None:
    reading = Reading(source=Confirming(tmp_path / "book"))
    reading.read(5, SPLIT, complete=False)
    assert not (tmp_path / "book").exists()

    reading.read(5, SPLIT, complete=False, confirmed=CheckpointId(4))

    assert (tmp_path / "book").read_text() == "4: [10]"


class FetchedByThreads(GeneratorSource[int]):
    """The numbers of splits, four at a time, brought by a thread."""

    def open_reader(self, context: Any) -> Any:
        return FetchingReader(Fours, lambda split, at: RangeSplit(split.id, at + 1, split.stop), context)


class Fours(Fetcher[RangeSplit]):
    def fetch(self, splits: Sequence[RangeSplit]) -> list[Fetched[RangeSplit]]:
        parts = [(split, *split.cut(4)) for split in splits]
        return [Fetched(split, list(part.head(4)), part.head(4), rest) for split, part, rest in parts]

    def wake_up(self) -> None:
        """It never waits."""


def test_an_epoch_waits_for_threads_and_leaves_what_they_fetched_ahead_to_the_next_one() -> None:
    reading = Reading(source=FetchedByThreads(abs, count=1_000))

    first = reading.read(6, SPLIT)
    then = reading.read(3, *first.splits)

    assert (first.values, then.values) == ([10, 11, 12, 13, 14, 15], [16, 17, 18])
    assert (first.positions, then.positions) == ([16], [19])
