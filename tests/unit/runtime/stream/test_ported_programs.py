"""What a program that was written for PyFlink relies on without saying so."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    MapStateDescriptor,
    ProcessFunction,
    ReduceFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.datastream.window import EventTimeSessionWindows, SessionWindows
from tidegate.elements import MAX_WATERMARK, MIN_WATERMARK
from tidegate.errors import ConfigError, JobFailedError
from tidegate.row import Row
from tidegate.runtime.operators.stamp import Stamp
from tidegate.types import Types

Env = StreamExecutionEnvironment

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


def said(stream: DataStream) -> dict[str, Any]:
    """All that a program has said of a step."""
    step = stream._transformation
    return {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}


@pytest.fixture
def env() -> Env:
    return Env.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 4,
            "restart-strategy": "none",
        }
    )


def test_the_elements_of_a_key_come_in_the_order_of_the_collection(anywhere: Env) -> None:
    numbers = anywhere.from_collection(list(range(2_000)))

    seen: dict[int, list[int]] = defaultdict(list)
    for key, number in (
        numbers.key_by(lambda number: number % 3)
        .map(lambda number: (number % 3, number))
        .execute_and_collect()
    ):
        seen[key].append(number)

    assert {key: found == sorted(found) for key, found in seen.items()} == {0: True, 1: True, 2: True}


def test_a_collection_is_one_subtask_and_a_parallel_one_many(env: Env) -> None:
    one, many = env.from_collection([1, 2]), env.from_parallel_collection([1, 2])

    assert (one._transformation.parallelism, many._transformation.parallelism) == (1, None)


def test_what_is_collected_is_in_the_order_of_the_program(anywhere: Env) -> None:
    numbers = anywhere.from_collection(list(range(3_000))).map(lambda number: number + 1)
    numbers.set_parallelism(1)

    assert list(numbers.execute_and_collect()) == list(range(1, 3_001))


@pytest.mark.parametrize(
    "call",
    [
        lambda keyed: keyed.name("x"),
        lambda keyed: keyed.uid("x"),
        lambda keyed: keyed.set_description("x"),
        lambda keyed: keyed.set_parallelism(1),
        lambda keyed: keyed.set_max_parallelism(1),
        lambda keyed: keyed.force_non_parallel(),
        lambda keyed: keyed.disable_chaining(),
        lambda keyed: keyed.start_new_chain(),
        lambda keyed: keyed.slot_sharing_group("x"),
        lambda keyed: keyed.set_buffer_timeout(1),
    ],
    ids=lambda call: call.__code__.co_names[0],
)
def test_what_only_deals_records_cannot_be_set_up_in_place_of_the_step_before(
    env: Env, call: Callable[[DataStream], object]
) -> None:
    step = env.from_collection([1]).map(lambda number: number).name("before").uid("before")
    kept = said(step)

    with pytest.raises(ConfigError, match=r"cannot be set on a KeyedStream.*'before'.*call it on that step"):
        call(step.key_by(lambda number: number))
    with pytest.raises(ConfigError, match=r"cannot be set on a DataStream.*'before'"):
        call(step.rebalance())

    assert said(step) == kept


@pytest.mark.parametrize(
    "call",
    [
        lambda keyed: keyed.rebalance(),
        lambda keyed: keyed.rescale(),
        lambda keyed: keyed.shuffle(),
        lambda keyed: keyed.forward(),
        lambda keyed: keyed.broadcast(),
        lambda keyed: keyed.global_(),
        lambda keyed: keyed.partition_custom(lambda key, count: 0, lambda number: number),
        lambda keyed: keyed.broadcast(RULES),
    ],
    ids=["rebalance", "rescale", "shuffle", "forward", "broadcast", "global", "custom", "broadcast-state"],
)
def test_no_partitioner_replaces_a_key(env: Env, call: Callable[[KeyedStream], object]) -> None:
    keyed = env.from_collection([1]).key_by(lambda number: number)

    with pytest.raises(ConfigError, match=r"KeyedStream.*key_by"):
        call(keyed)


class Counted(ReduceFunction):
    """Adds up, and multiplies by how often it was called for the key."""

    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.LONG()))

    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], self.calls.value()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_a_reduce_function_has_state_of_its_own_key(anywhere: Env, mode: RuntimeExecutionMode) -> None:
    anywhere.set_runtime_mode(mode)
    records = [(key, 1) for key in "aababcabbb"]

    told = anywhere.from_collection(records).key_by(lambda pair: pair[0]).reduce(Counted())

    last = {record[0]: record[1] for record in told.execute_and_collect()}
    assert last == {"a": 3, "b": 4, "c": 1}


class Timed(ProcessFunction):
    def __init__(self, method: str) -> None:
        self.method = method

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        getattr(ctx.timer_service(), self.method)(value)
        yield value


@pytest.mark.parametrize(
    "method",
    [
        "register_processing_time_timer",
        "register_event_time_timer",
        "delete_processing_time_timer",
        "delete_event_time_timer",
    ],
)
def test_a_timer_without_a_key_is_refused_by_name(env: Env, method: str) -> None:
    stream = env.from_collection([1]).process(Timed(method))

    with pytest.raises(ConfigError, match=f"{method} was called on a stream without keys.*use key_by"):
        list(stream.execute_and_collect())


class Told(KeyedProcessFunction):
    """Counts per key, and shows the key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        yield repr(ctx.get_current_key()), self.seen.value()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_row_is_a_key_with_state(anywhere: Env, mode: RuntimeExecutionMode, backend: str) -> None:
    anywhere.set_runtime_mode(mode)
    anywhere._settings["state.backend.type"] = backend
    rows = anywhere.from_collection(
        [("a", 1), ("b", None), ("a", 1)], Types.ROW([Types.STRING(), Types.LONG()])
    )

    told = rows.key_by(lambda row: row, key_type=Types.ROW([Types.STRING(), Types.LONG()])).process(Told())

    counts = dict(sorted(told.execute_and_collect()))
    assert counts == {"Row(f0='a', f1=1)": 2, "Row(f0='b', f1=None)": 1}


def test_fields_of_a_plain_row_have_names_behind_a_step(anywhere: Env) -> None:
    rows = anywhere.from_collection([1]).map(
        lambda number: Row(number, None), Types.ROW([Types.LONG(), Types.STRING()])
    )

    assert list(rows.map(lambda row: (row.f0, row["f1"], repr(row))).execute_and_collect()) == [
        (1, None, "Row(f0=1, f1=None)")
    ]


def test_lists_and_rows_are_tuples_behind_a_step_that_declares_one(anywhere: Env) -> None:
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    given = anywhere.from_collection([[1, "a"], Row(2, "b"), (3, "c")], pair)
    mapped = given.map(lambda value: [value[0] + 10, value[1]], pair).rebalance().map(lambda value: (value,))

    assert sorted(mapped.execute_and_collect()) == [((11, "a"),), ((12, "b"),), ((13, "c"),)]
    added = given.key_by(lambda value: 0).reduce(lambda a, b: [a[0] + b[0], "sum"])
    assert sorted(added.execute_and_collect()) == [(1, "a"), (3, "sum"), (6, "sum")]


@pytest.mark.spec("002/AX-39")
def test_a_function_maps_with_the_state_of_the_key(anywhere: Env) -> None:
    pairs = anywhere.from_collection([("a", 1), ("a", 2), ("b", 7), ("a", 3)]).key_by(lambda pair: pair[0])

    told = pairs.map_with_state(lambda pair, seen: ((pair[0], seen or 0), (seen or 0) + pair[1]))

    assert [pair for pair in told.execute_and_collect() if pair[0] == "a"] == [("a", 0), ("a", 1), ("a", 3)]


def test_no_state_clears_the_state_and_no_pair_is_refused(env: Env) -> None:
    numbers = env.from_collection([1, 2, 3]).key_by(lambda number: 0)

    told = numbers.map_with_state(lambda number, seen: (seen, None if seen else number))
    assert list(told.execute_and_collect()) == [None, 1, None]
    with pytest.raises(
        JobFailedError, match=r"map_with_state: the function returned 1; expected \(result, state\)"
    ):
        list(numbers.map_with_state(lambda number, seen: number).execute_and_collect())


def test_session_windows_have_their_older_name(env: Env) -> None:
    assert SessionWindows.with_gap(Duration.of_seconds(30)) == EventTimeSessionWindows(30_000)


@pytest.mark.parametrize("key_type", [None, Types.LIST(Types.LONG()), Types.BASIC_ARRAY(Types.LONG())])
def test_a_list_is_no_key_and_the_message_says_what_is(env: Env, key_type: Any) -> None:
    keyed = env.from_collection([1]).key_by(lambda number: [number], key_type=key_type)

    with pytest.raises(JobFailedError, match=r"list \[1\] cannot be a key: it is a collection; use a tuple"):
        list(keyed.map(lambda number: number).execute_and_collect())


def test_watermarks_follow_records_as_often_as_was_said() -> None:
    clock = ManualClock()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    stamp = Stamp(dataclasses.replace(strategy, every_ms=200), clock)

    def after(records: list[int], elapsed_ms: int) -> int | None:
        clock.advance(elapsed_ms)
        for record in records:
            stamp.calls[0].function(record, None)
        return stamp.own_watermark()

    assert after([10], 199) is None
    assert stamp.next_processing_time() == clock.now_ms() + 1
    assert after([20], 1) == 19
    assert (after([30], 199), after([], 1)) == (None, 29)


def test_an_interval_of_none_lets_time_stand_still_until_the_end() -> None:
    clock = ManualClock()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    stamp = Stamp(dataclasses.replace(strategy, every_ms=0), clock)
    stamp.calls[0].function(10, None)
    clock.advance(10_000)

    assert (stamp.own_watermark(), stamp.next_processing_time()) == (None, None)
    assert stamp.forwarded(MAX_WATERMARK) == MAX_WATERMARK


class Seen(ProcessFunction):
    """Shows the watermark each record meets."""

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield ctx.timer_service().current_watermark()


@pytest.mark.parametrize("at_source", [True, False])
def test_the_interval_of_the_program_reaches_its_strategies(env: Env, at_source: bool) -> None:
    env.set_parallelism(1).get_config().set_auto_watermark_interval(0)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    source = GeneratorSource(lambda number: number, 20_000)
    numbers = (
        env.from_source(source, strategy)
        if at_source
        else env.from_source(source).assign_timestamps_and_watermarks(strategy)
    )

    assert set(numbers.process(Seen()).execute_and_collect()) == {MIN_WATERMARK}
