"""Bounded programs as batch jobs: stages follow each other, keys come one by one, only results in the end count."""

from __future__ import annotations

import os
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.datastream.window import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.errors import ConfigError, JobFailedError
from tidegate.types import Types

Env = StreamExecutionEnvironment

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])
COLOURS = MapStateDescriptor("colours", Types.STRING(), Types.STRING())


@pytest.fixture
def batch(anywhere: Env) -> Env:
    """A batch job on each executor, whose sort buffer holds a few records."""
    anywhere._settings["execution.sorted-inputs.memory"] = "1 kb"
    anywhere.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return anywhere


def inline(mode: str, parallelism: int = 2) -> Env:
    return Env.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": parallelism,
            "restart-strategy.fixed-delay.attempts": 0,
            "execution.runtime-mode": mode,
            "execution.sorted-inputs.memory": "1 kb",
        }
    )


def test_word_count_has_one_line_for_each_word(batch: Env) -> None:
    words = batch.from_collection(
        ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question", "to"]
    )
    counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)

    assert Counter(counts.execute_and_collect()) == Counter(
        [("to", 3), ("be", 2), ("or", 1), ("not", 1), ("that", 1), ("is", 1), ("the", 1), ("question", 1)]
    )


def test_a_bounded_program_is_a_batch_job_if_the_sources_decide(anywhere: Env) -> None:
    anywhere.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)

    assert list(anywhere.from_collection([1, 2, 3]).key_by(lambda _: 0).sum(0).execute_and_collect()) == [6]


def test_streaming_is_the_default_and_shows_every_step() -> None:
    env = Env.get_execution_environment({"execution.target": "inline", "pipeline.progress": "off"})
    env.set_parallelism(1)

    assert list(env.from_collection([1, 2, 3]).key_by(lambda _: 0).sum(0).execute_and_collect()) == [1, 3, 6]


@pytest.mark.spec("003/EX-05")
def test_aggregation_starts_behind_the_source_and_sink_behind_the_aggregation(
    batch: Env, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def seen(stage: str) -> Callable[[Any], Any]:
        def note(record: Any) -> Any:
            handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(handle, f"{stage}\n".encode())
            os.close(handle)
            return record

        return note

    read = batch.from_collection([(n % 7, n) for n in range(2_000)]).map(seen("source"))
    total = read.key_by(lambda pair: pair[0]).sum(1).map(seen("aggregation"))
    written = list(total.rebalance().map(seen("sink")).execute_and_collect())

    assert len(written) == 7
    assert log.read_text().split() == ["source"] * 2_000 + ["aggregation"] * 7 + ["sink"] * 7


class OneByOne(KeyedProcessFunction):
    """Tells what it sees, in order; both kinds of timers, and state of every kind."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times"))
        self.told = count()

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        self.count.update(self.count.value() + 1)
        self.seen.add(value[1])
        self.times.put(value[1], True)
        timers.register_event_time_timer(value[1] + 5)
        timers.register_processing_time_timer(1)
        timers.register_processing_time_timer(timers.current_processing_time() + 3_600_000)
        yield next(self.told), value[0], "record", value[1], timers.current_watermark() < 0

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        late = timestamp if timestamp < 1_000 else "clock"
        yield (
            next(self.told),
            ctx.get_current_key(),
            "timer",
            late,
            (self.count.value(), len(self.seen.get())),
        )
        if len(list(self.times.keys())) != self.count.value():
            raise AssertionError("state of another key is visible")


def test_a_key_is_over_with_its_timers_before_the_next_one_begins(batch: Env) -> None:
    records = [(key, time) for time in (30, 10, 20) for key in "abcdef"]
    stream = batch.from_collection(records).assign_timestamps_and_watermarks(BY_TIME)
    told = stream.key_by(lambda pair: pair[0]).process(OneByOne()).set_parallelism(1)
    seen = [what for _, *what in sorted(told.execute_and_collect())]

    by_key: dict[str, list[Any]] = {}
    for key, *what in seen:
        by_key.setdefault(key, []).append(tuple(what))
    whole = (3, 3)
    expected: list[Any] = [("record", time, True) for time in (10, 20, 30)]
    expected += [("timer", time, whole) for time in (15, 25, 35, 1)]
    assert [key for key, *_ in seen] == [key for key in by_key for _ in by_key[key]]
    for key in "abcdef":
        assert by_key[key][:7] == expected
        assert set(by_key[key][7:]) == {("timer", "clock", whole)}


def test_the_clock_fires_nothing_before_the_end_of_the_key(batch: Env) -> None:
    class Overdue(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[str]:
            ctx.timer_service().register_processing_time_timer(0)
            yield "record"

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
            yield "timer"

    stream = batch.from_collection(range(5_000)).key_by(lambda _: 0)

    assert list(stream.process(Overdue()).execute_and_collect()) == ["record"] * 5_000 + ["timer"]


def test_windows_need_no_order_and_drop_nothing(batch: Env) -> None:
    items = [
        ("a", 9_000, 1),
        ("b", 1_000, 2),
        ("a", 500, 4),
        ("a", 8_500, 8),
        ("b", 99_000, 16),
        ("a", 0, 32),
    ]
    stream = (
        batch.from_collection(items).assign_timestamps_and_watermarks(BY_TIME).key_by(lambda item: item[0])
    )
    late: OutputTag = OutputTag("late")
    windows = stream.window(TumblingEventTimeWindows.of(Duration.of_seconds(5))).side_output_late_data(late)

    def add(one: tuple[str, int, int], two: tuple[str, int, int]) -> tuple[str, int, int]:
        return one[0], max(one[1], two[1]), one[2] + two[2]

    assert sorted(windows.reduce(add).execute_and_collect()) == [
        ("a", 500, 36),
        ("a", 9_000, 9),
        ("b", 1_000, 2),
        ("b", 99_000, 16),
    ]


def test_sessions_and_windows_of_the_clock_fire_at_the_end_of_their_key(batch: Env) -> None:
    items = [("a", 0, 1), ("a", 900, 1), ("a", 5_000, 1), ("b", 300, 1)] * 10
    keyed = (
        batch.from_collection(items).assign_timestamps_and_watermarks(BY_TIME).key_by(lambda item: item[0])
    )
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Duration.of_seconds(1))).sum(2)
    clocked = keyed.window(TumblingProcessingTimeWindows.of(Duration.of_days(3))).sum(2)
    found = sessions.map(lambda item: ("session", item[0], item[2])).union(
        clocked.map(lambda item: ("clock", item[0], item[2]))
    )

    assert sorted(found.execute_and_collect()) == [
        ("clock", "a", 30),
        ("clock", "b", 10),
        ("session", "a", 10),
        ("session", "a", 20),
        ("session", "b", 10),
    ]


def test_joins_and_co_groups_meet_all_records_of_a_window(batch: Env) -> None:
    window = TumblingEventTimeWindows.of(Duration.of_seconds(1))
    orders = batch.from_collection([("ada", 900), ("bob", 200), ("ada", 100)])
    visits = batch.from_collection([("ada", 2_000), ("ada", 150), ("eve", 10)])
    one, two = (stream.assign_timestamps_and_watermarks(BY_TIME) for stream in (orders, visits))
    joined = one.join(two).where(lambda item: item[0]).equal_to(lambda item: item[0]).window(window)
    grouped = one.co_group(two).where(lambda item: item[0]).equal_to(lambda item: item[0]).window(window)
    found = joined.apply(lambda order, visit: (order[0], order[1], visit[1])).union(
        grouped.apply(
            lambda left, right: [(len(list(left)), len(list(right)), "groups")],
        )
    )

    assert sorted(found.execute_and_collect(), key=str) == sorted(
        [
            ("ada", 900, 150),
            ("ada", 100, 150),
            (2, 1, "groups"),
            (0, 1, "groups"),
            (1, 0, "groups"),
            (0, 1, "groups"),
        ],
        key=str,
    )


class Last(KeyedCoProcessFunction):
    """How many records of each side a key had, told once."""

    def open(self, runtime_context: Any) -> None:
        self.counts = runtime_context.get_state(ValueStateDescriptor("counts", default=(0, 0)))

    def process_element1(self, value: tuple[str, int], ctx: Any) -> None:
        self._count(1, 0, ctx)

    def process_element2(self, value: tuple[str, int], ctx: Any) -> None:
        self._count(0, 1, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), *self.counts.value()

    def _count(self, first: int, second: int, ctx: Any) -> None:
        counts = self.counts.value()
        self.counts.update((counts[0] + first, counts[1] + second))
        ctx.timer_service().register_event_time_timer(0)


def test_both_sides_of_connected_streams_meet_in_one_key(batch: Env) -> None:
    first = batch.from_collection([(f"k{n % 5}", n) for n in range(100)]).key_by(lambda pair: pair[0])
    second = batch.from_collection([(f"k{n % 10}", n) for n in range(100)]).key_by(lambda pair: pair[0])

    assert sorted(first.connect(second).process(Last()).execute_and_collect()) == [
        (f"k{n}", 20 if n < 5 else 0, 10) for n in range(10)
    ]


class Named(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, value: tuple[str, str], ctx: Any) -> None:
        ctx.get_broadcast_state(COLOURS).put(*value)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        yield value[1], ctx.get_broadcast_state(COLOURS).get(value[0])


class PlainlyNamed(BroadcastProcessFunction):
    def process_broadcast_element(self, value: tuple[str, str], ctx: Any) -> None:
        ctx.get_broadcast_state(COLOURS).put(*value)

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        yield -value[1] - 1, ctx.get_broadcast_state(COLOURS).get(value[0])


def test_broadcast_records_come_before_those_that_need_them(batch: Env) -> None:
    items = batch.from_collection([("rg"[n % 2], n) for n in range(500)])
    names = batch.from_collection([("r", "red"), ("g", "green")]).broadcast(COLOURS)
    keyed = items.key_by(lambda pair: pair[0]).connect(names).process(Named())
    plain = items.connect(names).process(PlainlyNamed())

    found = Counter(keyed.union(plain).execute_and_collect())
    assert found == Counter(
        {(place, ["red", "green"][n % 2]): 1 for n in range(500) for place in (n, -n - 1)}
    )


class Doubled(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        return [value * 2]


def test_requests_are_answered_before_the_next_stage_begins(batch: Env) -> None:
    totals = batch.from_collection([(n % 3, n) for n in range(300)]).key_by(lambda pair: pair[0]).sum(1)
    asked = AsyncDataStream.unordered_wait(
        totals.map(lambda pair: pair[1]), Doubled(), Duration.of_seconds(5)
    )

    assert sorted(asked.rebalance().map(lambda n: n).execute_and_collect()) == [29_700, 29_900, 30_100]


class Marks(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield ctx.timer_service().current_watermark()


def test_time_moves_only_at_the_end_of_the_input(batch: Env) -> None:
    stream = batch.from_collection([(None, n) for n in range(500)]).assign_timestamps_and_watermarks(BY_TIME)

    assert set(stream.rebalance().process(Marks()).execute_and_collect()) == {-(2**63)}


def test_a_reduced_record_has_the_time_of_the_last_one(batch: Env) -> None:
    class Stamped(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value[0], ctx.timestamp()

    stream = batch.from_collection([("a", 30), ("b", 5), ("a", 10)]).assign_timestamps_and_watermarks(BY_TIME)
    latest = stream.key_by(lambda pair: pair[0]).reduce(lambda one, two: two).process(Stamped())

    assert sorted(latest.execute_and_collect()) == [("a", 30), ("b", 5)]


def test_a_stage_may_follow_another_over_many_keys(batch: Env) -> None:
    sums = batch.from_collection([(n % 1_000, 1) for n in range(3_000)]).key_by(lambda pair: pair[0]).sum(1)
    sizes = sums.map(lambda pair: (pair[1], pair[0])).key_by(lambda pair: pair[0]).process(Counting())

    assert sorted(sizes.execute_and_collect())[-1] == (3, 1_000)


class Counting(KeyedProcessFunction):
    """The first records of a key, each with its number."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update(self.count.value() + 1)
        yield value[0], self.count.value()


def test_a_failing_timer_names_its_step_and_the_end_of_the_key() -> None:
    class Broken(Counting):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            ctx.timer_service().register_event_time_timer(1)
            yield value

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            raise ValueError("no")

    stream = inline("BATCH").from_collection([(1, 1)]).key_by(lambda pair: pair[0]).process(Broken())
    with pytest.raises(JobFailedError, match=r"failed in a timer at the end of its key: ValueError: no"):
        list(stream.execute_and_collect())


def test_an_unbounded_source_is_refused_by_name() -> None:
    env = inline("BATCH")
    env.socket_text_stream("localhost", 9).print()

    with pytest.raises(
        ConfigError,
        match=r"source 'socket' \(uid 'socket-1'\) is unbounded and runtime mode is BATCH; expected bounded "
        "sources; use STREAMING, or AUTOMATIC",
    ):
        env.execute()


def test_one_endless_source_makes_a_stream_if_the_sources_decide() -> None:
    env = inline("AUTOMATIC")
    env.from_collection(["a"]).union(env.socket_text_stream("localhost", 9)).print()

    assert "blocking" not in env.explain()


def test_a_mode_nobody_knows_is_refused() -> None:
    env = inline("MICRO")
    env.from_collection([1]).print()

    with pytest.raises(
        ConfigError, match=r"'execution.runtime-mode' in program has an invalid value; got 'MICRO'"
    ):
        env.explain()


def test_explain_and_the_plan_say_which_exchanges_block(tmp_path: Path) -> None:
    env = inline("BATCH")
    env.from_parallel_collection(["a"]).map(str.upper).key_by(str).reduce(max).print()

    assert re.findall(r"-> .*;", env.explain()) == ["-> HASH to chain 2, 2 to 2 all-to-all, blocking;"]
    assert env.get_execution_plan().count('"exchange": "blocking"') == 1
    env.explain(svg=tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text().count("2 to 2, blocking") == 1
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    assert "blocking" not in env.explain() + env.get_execution_plan()


def test_more_subtasks_than_slots_run_in_turn() -> None:
    env = Env.get_execution_environment(
        {
            "execution.target": "embedded",
            "pipeline.progress": "off",
            "execution.runtime-mode": "BATCH",
            "parallelism.default": 5,
            "minicluster.number-of-taskmanagers": 1,
            "restart-strategy.fixed-delay.attempts": 0,
        }
    )
    read = env.from_collection([(n % 11, 1) for n in range(1_100)]).slot_sharing_group("reading")
    counts = read.key_by(lambda pair: pair[0]).sum(1).slot_sharing_group("counting")

    assert sorted(counts.execute_and_collect()) == [(n, 100) for n in range(11)]


class Hoarding(KeyedProcessFunction):
    """Keeps every record of a key, which over all keys would be everything."""

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept"))

    def process_element(self, value: tuple[int, bytes], ctx: Any) -> Iterator[int]:
        self.kept.add(value)
        if len(self.kept.get()) == 4:
            yield value[0]


def test_memory_follows_the_sort_buffer_and_not_the_input() -> None:
    count_, size = 16_000, 1_500
    env = inline("BATCH", 1)
    env._settings["execution.sorted-inputs.memory"] = "1 mb"
    # Small splits make small batches at the source, whose size is not the subject.
    source = GeneratorSource(lambda number: (number * 7919 % 4_000, bytes(size)), count_, splits=100)
    whole = env.from_source(source).key_by(lambda pair: pair[0]).process(Hoarding())
    tracemalloc.start()
    try:
        assert sorted(whole.rebalance().map(lambda key: key).execute_and_collect()) == list(range(4_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count_ * size == 24_000_000
    assert peak < 8_000_000


def joined(one: tuple[int, str], two: tuple[int, str]) -> tuple[int, str]:
    return one[0], one[1] + two[1]


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "reduce": lambda keyed: keyed.reduce(joined),
    "sum": lambda keyed: keyed.sum(1),
    "min": lambda keyed: keyed.min(1),
    "max_by": lambda keyed: keyed.max_by(1),
}


@settings(max_examples=15, deadline=None)
@given(
    records=st.lists(st.tuples(st.integers(-3, 3), st.text("abc", max_size=2)), max_size=80),
    how=st.sampled_from(sorted(REDUCTIONS)),
    parallelism=st.integers(1, 3),
)
def test_results_are_the_last_ones_of_the_stream(
    records: list[tuple[int, str]], how: str, parallelism: int
) -> None:
    def results(mode: str) -> list[tuple[int, str]]:
        env = inline(mode, parallelism)
        keyed = env.from_collection(records).set_parallelism(1).key_by(lambda pair: pair[0])
        numbered = REDUCTIONS[how](keyed).key_by(lambda pair: pair[0]).process(Numbered())
        return [pair for _, pair in sorted(numbered.execute_and_collect())]

    assert Counter(results("BATCH")) == Counter(dict(results("STREAMING")).items())


class Numbered(KeyedProcessFunction):
    """Records with their number among those of their key."""

    def open(self, runtime_context: Any) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", default=0))

    def process_element(self, value: tuple[int, str], ctx: Any) -> Iterator[tuple[int, tuple[int, str]]]:
        self.number.update(self.number.value() + 1)
        yield self.number.value(), value
