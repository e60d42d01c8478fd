"""Operators that hold results back until a batch is finished: nothing is held across time, barriers or the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.packages import local_sums
from tests.packages.install import install
from tests.packages.local_sums import LOCAL_SUMS
from tidegate.common import Time, WatermarkStrategy
from tidegate.common.watermark_strategy import WatermarkGenerator
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import UserCodeError
from tidegate.runtime.operators.operator import Bundling, Call, Emitted, StepInput, StepKind
from tidegate.testing.harness import Harness, HarnessSnapshot

WINDOW_MS = 10


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator as a package, here and in workers."""
    entry_points = "[tidegate.operators]\nlocal-sums = local_sums:LOCAL_SUMS\n"
    source = Path(local_sums.__file__).read_text()
    install(tmp_path, monkeypatch, "local-sums", source, entry_points)


def windowed(sums: DataStream) -> DataStream:
    """What all sums of an account and a window come to."""
    windows = sums.key_by(lambda s: s[:2]).window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    return windows.reduce(lambda a, b: (*a[:2], a[2] + b[2], a[3] + b[3])).uid("windows")


def totals(payments: list[tuple[int, str, int]]) -> set[tuple[str, int, int, int]]:
    amounts, counts = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for time, account, amount in payments:
        amounts[account, time // WINDOW_MS] += amount
        counts[account, time // WINDOW_MS] += 1
    return {(*at, amounts[at], counts[at]) for at in counts}


PAYMENTS = [(number, f"account-{number % 3}", number % 7) for number in range(1_000)]


def presummed(env: StreamExecutionEnvironment) -> DataStream:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda p, _: p[0])
    stamped = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(times).set_parallelism(1)
    pairs = stamped.map(lambda p: (p[1], p[2])).set_parallelism(1)
    return pairs.transform("sums", "local-sums", WINDOW_MS).set_parallelism(1)


@pytest.mark.usefixtures("installed")
def test_an_operator_of_another_package_sums_up_each_batch(anywhere: StreamExecutionEnvironment) -> None:
    sums = list(presummed(anywhere).execute_and_collect())

    assert totals(PAYMENTS) == totals_of(sums)
    assert len(sums) < len(PAYMENTS)


def totals_of(sums: list[tuple[str, int, int, int]]) -> set[tuple[str, int, int, int]]:
    amounts, counts = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for account, window, amount, count in sums:
        amounts[account, window] += amount
        counts[account, window] += count
    return {(*at, amounts[at], counts[at]) for at in counts}


@pytest.mark.usefixtures("installed")
def test_windows_behind_it_have_all_of_it_in_time(anywhere: StreamExecutionEnvironment) -> None:
    assert set(windowed(presummed(anywhere)).execute_and_collect()) == totals(PAYMENTS)


@pytest.mark.spark
@pytest.mark.usefixtures("installed", "spark")
def test_so_they_have_on_spark() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "local[2]",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "execution.spark.epoch-records": 300,
        }
    )

    assert set(windowed(presummed(env)).execute_and_collect()) == totals(PAYMENTS)


def harnessed(stream: DataStream) -> DataStream:
    return windowed(stream.transform("sums", LOCAL_SUMS, WINDOW_MS).uid("sums"))


STEPS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 15), st.sampled_from("abc"), st.integers(0, 9)), max_size=40),
        st.integers(1, 15),
        st.tuples(st.integers(1, 3), st.sampled_from(["heap", "rocksdb"])),
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_nothing_is_lost_late_or_doubled_whatever_comes_between_batches(steps: list[Any]) -> None:
    """A step is a batch of payments that are so far ahead of event time, a watermark, or a restart elsewhere."""
    now, paid, found = 0, list[tuple[int, str, int]](), list[Any]()
    harness = Harness(harnessed, max_parallelism=8)
    try:
        for step in steps:
            match step:
                case list():
                    payments = [(now + ahead + 1, account, amount) for ahead, account, amount in step]
                    paid += payments
                    harness.push_batch([payment[1:] for payment in payments], [time for time, *_ in payments])
                case int():
                    now += step
                    harness.watermark(now)
                case parallelism, backend:
                    saved: HarnessSnapshot = harness.snapshot()
                    found += harness.take()
                    harness.close()
                    harness = Harness(
                        harnessed, parallelism=parallelism, max_parallelism=8, backend=backend, restored=saved
                    )
        harness.watermark(now + 1_000)
        found += harness.take()
    finally:
        harness.close()

    assert Counter(found) == Counter(totals(paid))


def test_the_harness_lets_records_come_in_together() -> None:
    def sums(stream: DataStream) -> DataStream:
        return stream.transform("sums", LOCAL_SUMS, WINDOW_MS)

    with Harness(sums) as harness:
        harness.push_batch([("a", 1), ("b", 2), ("a", 3)], [1, 2, 12])
        assert harness.take_timed() == [(("a", 0, 1, 1), 1), (("b", 0, 2, 1), 2), (("a", 1, 3, 1), 12)]
        harness.push_batch([("a", 1), ("a", 2)], [3, 4])
        assert harness.take_timed() == [(("a", 0, 3, 2), 4)]


class EachRecord(WatermarkGenerator):
    """Time is where the newest record is, at once."""

    asked = "record"

    def __init__(self) -> None:
        self._newest: int | None = None

    def on_event(self, value: Any, timestamp: int) -> None:
        self._newest = timestamp

    def watermark(self) -> int | None:
        return self._newest


def test_a_record_that_moves_time_ends_the_batch() -> None:
    """Else what is held would come behind a watermark that it is due by."""

    def closed(stream: DataStream) -> DataStream:
        times = WatermarkStrategy.for_generator(EachRecord)
        stamped = stream.assign_timestamps_and_watermarks(times.with_timestamp_assigner(lambda p, _: p[1]))
        return windowed(stamped.transform("sums", LOCAL_SUMS, WINDOW_MS))

    with Harness(closed) as harness:
        harness.push_batch([("a", 5), ("a", 9), ("a", 10), ("a", 12)])
        assert harness.take() == [("a", 0, 14, 2)]


class Reversed(Bundling):
    """The records of each batch, the last one first."""

    def __init__(self) -> None:
        super().__init__((Call("flat_map", self._hold),))
        self._held: list[Any] = []

    def finish_batch(self) -> Emitted | None:
        held, self._held = self._held, []
        return held[::-1], None

    def _hold(self, value: Any) -> list[Any]:
        self._held.append(value)
        return []


REVERSED = StepKind("reversed", lambda node, context: Reversed(), nests=True)


def test_what_one_emits_is_part_of_the_batch_of_the_next() -> None:
    def twice(stream: DataStream) -> DataStream:
        first = stream.transform("first", REVERSED)
        return first.map(str).transform("second", REVERSED)

    with Harness(twice) as harness:
        harness.push_batch([1, 2, 3])
        assert harness.take() == ["1", "2", "3"]


class OddFirst(Reversed):
    """Odd numbers at once, even ones at the end of the batch."""

    def _hold(self, value: int) -> list[int]:
        if value % 2:
            return [value]
        self._held.append(value)
        return []


def test_records_that_move_time_behind_it_lose_nothing_of_the_rest_of_the_batch() -> None:
    kind = StepKind("odd_first", lambda node, context: OddFirst(), nests=True)

    def stamped(stream: DataStream) -> DataStream:
        times = WatermarkStrategy.for_generator(EachRecord).with_timestamp_assigner(lambda value, _: value)
        return stream.transform("odd first", kind).assign_timestamps_and_watermarks(times)

    with Harness(stamped) as harness:
        harness.push_batch([1, 2, 3, 4, 6, 5, 7])
        assert harness.take() == [1, 3, 2, 5, 6, 4, 7]


class Growing(KeyedProcessFunction):
    """Emits a list that it keeps and adds to."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> Iterator[list[int]]:
        seen = self.seen.value() or []
        seen.append(value)
        self.seen.update(seen)
        yield seen

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[list[int]]:
        yield self.seen.value()


def test_what_is_held_stays_as_it_was_when_it_came() -> None:
    def held(stream: DataStream) -> DataStream:
        return stream.key_by(lambda _: 0).process(Growing()).transform("reversed", REVERSED)

    with Harness(held) as harness:
        harness.push_batch([1, 2, 3])
        assert harness.take() == [[1, 2, 3], [1, 2], [1]]


LARGE = OutputTag("large")


class Sorted(Bundling):
    """Large records go to a side output, others on; both at the end of the batch."""

    def __init__(self) -> None:
        super().__init__((Call("process", self._hold, self),))
        self.stamp: int | None = None
        self._held: list[int] = []

    def finish_batch(self) -> Emitted | None:
        held, self._held = self._held, []
        return [(LARGE, value) if value > 9 else value for value in held], None

    def _hold(self, value: int, context: Any) -> None:
        self._held.append(value)


def test_side_outputs_are_among_what_was_held() -> None:
    kind = StepKind("sorted", lambda node, context: Sorted(), side_outputs=True, nests=True)

    with Harness(lambda stream: stream.transform("sorted", kind), side_outputs=[LARGE]) as harness:
        harness.push_batch([1, 10, 2])
        assert (harness.take(), harness.take(LARGE)) == ([1, 2], [10])


class CountsByKey(Bundling):
    """Touches the state of a key once in a batch."""

    def __init__(self, context: Any) -> None:
        self._store = context.keyed_store("counts")
        self._count = self._store.value_state(ValueStateDescriptor("count", default=0))
        super().__init__((Call("flat_map", self._hold, bind=self._store.cursor),), self._store)
        self._held: Counter[str] = Counter()

    def finish_batch(self) -> Emitted | None:
        held, self._held = self._held, Counter()
        return [(key, self._added(key, count)) for key, count in held.items()], None

    def _hold(self, value: str) -> None:
        self._held[self._store.current_key] += 1

    def _added(self, key: str, count: int) -> int:
        self._store.bind(key)
        total: int = self._count.value() + count
        self._count.update(total)
        return total


COUNTS = StepKind(
    "counts", lambda node, context: CountsByKey(context), inputs=(StepInput("required"),), nests=True
)


def test_keyed_state_is_there_when_the_batch_is_finished() -> None:
    def counts(stream: DataStream) -> DataStream:
        return stream.key_by(lambda word: word).transform("counts", COUNTS).uid("counts")

    with Harness(counts, backend="rocksdb") as harness:
        harness.push_batch(["a", "b", "a"])
        assert harness.take() == [("a", 2), ("b", 1)]
        saved = harness.snapshot()
    with Harness(counts, parallelism=2, restored=saved) as harness:
        harness.push_batch(["a", "a", "c"])
        assert sorted(harness.take()) == [("a", 4), ("c", 1)]


class Broken(Reversed):
    def finish_batch(self) -> Emitted | None:
        raise OSError("disk full")


def test_a_failure_names_the_step() -> None:
    broken = StepKind("broken", lambda node, context: Broken())

    with (
        Harness(lambda stream: stream.transform("sorted", broken)) as harness,
        pytest.raises(UserCodeError, match=r"operator 'sorted' \(uid 'sorted-1'.*failed in finish_batch"),
    ):
        harness.push(1)
