"""Several steps with state of one key in one chain: each has its own state, and no record of another subtask's key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tidegate.common import Row, Time, Types
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    state,
)
from tidegate.datastream.state import StateTtlConfig
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import ConfigError, RecordError, UserCodeError
from tidegate.runtime.graph.job_graph import build_job_graph
from tidegate.runtime.graph.stream_graph import build_stream_graph
from tidegate.testing.harness import Harness, HarnessSnapshot

Env = StreamExecutionEnvironment
Again = Callable[[DataStream], KeyedStream]


class Count(KeyedProcessFunction):
    """Adds how many records of its key came so far."""

    count = state.Value(int, default=0)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update(self.count.value() + 1)
        yield (*value, self.count.value())


def first(value: Any) -> Any:
    return value[0]


def in_place(stream: DataStream) -> KeyedStream:
    return stream.reinterpret_as_keyed_stream(first)


def anew(stream: DataStream) -> KeyedStream:
    return stream.key_by(first)


def counted_twice(stream: DataStream, again: Again = in_place) -> DataStream:
    """The second step counts all but each third record."""
    some = stream.key_by(first).process(Count()).uid("first").filter(lambda value: value[-1] % 3 > 0)
    return again(some).process(Count()).uid("second")


def by_way_of(again: Again) -> Callable[[DataStream], DataStream]:
    return lambda stream: counted_twice(stream, again)


def words(count: int) -> list[tuple[str]]:
    return [(f"word-{number * number % 17}",) for number in range(count)]


def expected(given: list[tuple[str]]) -> list[tuple[str, int, int]]:
    counts, again, found = Counter[str](), Counter[str](), []
    for (word,) in given:
        counts[word] += 1
        if counts[word] % 3:
            again[word] += 1
            found.append((word, counts[word], again[word]))
    return sorted(found)


def inline(**settings: Any) -> Env:
    return StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": "inline",
            "pipeline.progress": "off",
            "parallelism.default": 2,
            "restart-strategy.type": "none",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
    )


def test_each_step_has_its_own_state(anywhere: Env) -> None:
    given = words(500)

    assert sorted(counted_twice(anywhere.from_collection(given)).execute_and_collect()) == expected(given)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_so_it_has_on_spark_from_epoch_to_epoch() -> None:
    env, given = inline(execution__target="local[2]", **{"execution.spark.epoch-records": 100}), words(500)

    assert sorted(counted_twice(env.from_collection(given)).execute_and_collect()) == expected(given)


BATCH = {"execution.runtime-mode": "BATCH"}


@pytest.mark.parametrize("again", [in_place, anew], ids=["in place", "by an exchange"])
def test_a_batch_job_sorts_for_each_step(again: Again) -> None:
    given = words(500)

    assert sorted(
        counted_twice(inline(**BATCH).from_collection(given), again).execute_and_collect()
    ) == expected(given)


def test_both_steps_are_one_chain_and_uids_are_those_of_an_exchange() -> None:
    found: dict[Again, list[list[str]]] = {}
    for again in (in_place, anew):
        env = inline()
        again(env.from_collection(words(1)).key_by(first).process(Count())).process(Count()).print()
        vertices = build_job_graph(build_stream_graph(env._sinks, parallelism=2)).vertices.values()
        found[again] = [[str(uid) for uid in vertex.nodes] for vertex in vertices]

    assert found[in_place] == [["collection-1"], ["process-1", "process-2", "print-1"]]
    assert found[anew] == [["collection-1"], ["process-1"], ["process-2", "print-1"]]


PLACES = st.tuples(
    st.integers(1, 4), st.sampled_from(["heap", "rocksdb", "filesystem"]), st.sampled_from([in_place, anew])
)


@given(parts=st.lists(st.tuples(PLACES, st.lists(st.integers(0, 9), max_size=30)), min_size=2, max_size=4))
def test_state_of_both_goes_to_any_parallelism_backend_and_back_to_an_exchange(parts: list[Any]) -> None:
    given, found, saved = list[tuple[str]](), list[Any](), None
    for (parallelism, backend, again), numbers in parts:
        came = [(f"word-{number}",) for number in numbers]
        given += came
        with Harness(
            by_way_of(again),
            parallelism=parallelism,
            max_parallelism=16,
            backend=backend,
            restored=saved,
        ) as harness:
            harness.push_batch(came)
            found += harness.take()
            saved = harness.snapshot()

    assert sorted(found) == expected(given)


class Reminds(KeyedProcessFunction):
    """Passes records on, and says its name once when nothing came for a while."""

    last = state.Value(int)

    def __init__(self, name: str, after: int) -> None:
        self.name, self.after = name, after

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        last = self.last.value()
        if last is not None:
            ctx.timer_service().delete_event_time_timer(last + self.after)
        self.last.update(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.after)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.name


def reminded(stream: DataStream) -> DataStream:
    quick = stream.key_by(first).process(Reminds("quick", 10)).uid("quick")
    return quick.reinterpret_as_keyed_stream(first).process(Reminds("slow", 25)).uid("slow")


def test_each_step_has_its_own_timers_and_those_of_the_first_reach_the_second() -> None:
    with Harness(reminded, parallelism=2, max_parallelism=8) as harness:
        harness.push(("a",), timestamp=0)
        harness.watermark(5)
        assert harness.take() == [("a",)]
        saved: HarnessSnapshot = harness.snapshot()
    with Harness(reminded, parallelism=3, max_parallelism=8, restored=saved) as harness:
        harness.watermark(12)
        assert harness.take_timed() == [(("a", "quick"), 10)]
        harness.watermark(34)
        assert harness.take() == []
        harness.watermark(35)
        assert harness.take_timed() == [(("a", "slow"), 35)]


class Seen(KeyedProcessFunction):
    """Says of each record whether its key was seen in the last ten milliseconds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield (*value, bool(self.seen.value()))
        self.seen.update(True)


def test_state_of_the_second_step_expires() -> None:
    def seen(stream: DataStream) -> DataStream:
        return stream.key_by(first).process(Count()).reinterpret_as_keyed_stream(first).process(Seen())

    with Harness(seen, parallelism=2) as harness:
        harness.push(("a",))
        harness.push(("a",))
        harness.advance(11)
        harness.push(("a",))
        assert harness.take() == [("a", 1, False), ("a", 2, True), ("a", 3, False)]


def test_windows_and_reductions_stand_behind_a_step_with_state() -> None:
    def sums(stream: DataStream) -> DataStream:
        counted = stream.key_by(first).process(Count()).reinterpret_as_keyed_stream(first)
        windows = counted.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        of_windows = windows.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("windows")
        return of_windows.reinterpret_as_keyed_stream(first).sum(1).uid("sums")

    with Harness(sums, parallelism=2) as harness:
        harness.push_batch([("a",), ("b",), ("a",), ("a",)], [1, 2, 3, 14])
        harness.watermark(100)
        assert sorted(harness.take()) == [("a", 3), ("a", 6), ("b", 1)]


class Grows(KeyedProcessFunction):
    """Emits the list that it keeps."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        seen = self.seen.value() or [value[0]]
        seen.append(len(seen))
        self.seen.update(seen)
        yield seen


def test_side_outputs_and_objects_that_change_meet_the_second_step_one_by_one() -> None:
    tag = OutputTag("side")

    class Splits(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield tag, tuple(value)

    def split(stream: DataStream) -> DataStream:
        grown = stream.key_by(first).process(Grows()).reinterpret_as_keyed_stream(first).process(Splits())
        return grown.get_side_output(tag).reinterpret_as_keyed_stream(first).process(Count())

    with Harness(split, parallelism=2) as harness:
        harness.push_batch([("a",), ("a",), ("a",)])
        assert harness.take() == [("a", 1, 1), ("a", 1, 2, 2), ("a", 1, 2, 3, 3)]


KEYS = [("tuple", 1), 1.0, True, 2, "text", 7]


def test_keys_are_those_of_an_exchange() -> None:
    class Key(Count):
        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            for counted in super().process_element(value, ctx):
                yield (*counted, ctx.get_current_key())

    def keys(again: Again) -> list[Any]:
        def both(stream: DataStream) -> DataStream:
            return again(stream.key_by(first).process(Count())).process(Key())

        with Harness(both, parallelism=2) as harness:
            harness.push_batch([(key,) for key in KEYS])
            return sorted(harness.take(), key=repr)

    assert keys(in_place) == keys(anew)
    assert {(found[-1], type(found[-1])) for found in keys(in_place) if found[0] == 1} == {(1, int)}


def test_a_key_selector_that_fails_and_a_key_that_cannot_be_one_are_named() -> None:
    def by(select: Callable[[Any], Any]) -> Callable[[DataStream], DataStream]:
        return lambda stream: (
            stream.key_by(first).process(Count()).reinterpret_as_keyed_stream(select).process(Count())
        )

    with (
        Harness(by(lambda value: value[7])) as harness,
        pytest.raises(UserCodeError, match=r"uid 'process-2'.* failed in its key selector.*IndexError"),
    ):
        harness.push(("a",))
    with (
        Harness(by(lambda value: [value])) as harness,
        pytest.raises(RecordError, match=r"uid 'process-2'.* list"),
    ):
        harness.push(("a",))


def longer(value: Any) -> str:
    return f"{value[0]}!"


@pytest.mark.parametrize("chained", [True, False], ids=["in a chain", "over an exchange"])
def test_a_key_of_another_subtask_fails_with_what_where_and_remedy(chained: bool) -> None:
    counted = inline().from_collection(words(100)).key_by(first).process(Count())
    again = counted.reinterpret_as_keyed_stream(longer).process(Count()).uid("again")
    if not chained:
        again.start_new_chain()

    with pytest.raises(
        ConfigError,
        match=r"operator 'process' \(uid 'again', subtask .*key 'word-\d+!' of record .* belongs to another subtask; "
        r"got key group \d+; expected groups \d+ to \d+; .*use key_by\(\.\.\.\) in place of",
    ):
        list(again.execute_and_collect())


def test_a_wrong_key_of_the_own_groups_is_a_key_like_others() -> None:
    with Harness(
        lambda stream: (
            stream.key_by(first).process(Count()).reinterpret_as_keyed_stream(longer).process(Count())
        )
    ) as harness:
        harness.push_batch(words(3))
        assert len(harness.take()) == 3


def test_without_a_chain_records_stay_in_their_subtask_and_bring_their_keys(anywhere: Env) -> None:
    given = words(300)
    counted = anywhere.from_collection(given).key_by(first).process(Count())
    some = counted.filter(lambda value: value[-1] % 3 > 0)
    again = some.reinterpret_as_keyed_stream(first).process(Count()).disable_chaining()

    assert sorted(again.execute_and_collect()) == expected(given)


def test_connected_streams_may_be_partitioned_already() -> None:
    from tidegate.datastream import KeyedCoProcessFunction

    class Both(KeyedCoProcessFunction):
        count = state.Value(int, default=0)

        def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.count.update(self.count.value() + 1)
            yield value[0], self.count.value()

        process_element2 = process_element1

    def both(left: DataStream, right: DataStream) -> DataStream:
        counted = left.key_by(first).process(Count()).reinterpret_as_keyed_stream(first)
        return counted.connect(right.key_by(first)).process(Both())

    with Harness(both, parallelism=2) as harness:
        harness.push_batch(words(3))
        harness.push(words(1)[0], input=1)
        assert sorted(harness.take())[:2] == [("word-0", 1), ("word-0", 2)]


def test_the_number_of_key_groups_follows_the_step_that_partitions() -> None:
    env = inline()
    counted = env.from_collection(words(1)).key_by(first).process(Count()).set_max_parallelism(32)
    again = counted.map(tuple).reinterpret_as_keyed_stream(first).process(Count()).uid("again")
    again.print()

    nodes = build_stream_graph(env._sinks, parallelism=2, max_parallelism=64).nodes
    assert {str(uid): node.max_parallelism for uid, node in nodes.items()}["again"] == 32
    again.set_max_parallelism(16)
    with pytest.raises(
        ConfigError, match=r"operator 'again': max parallelism is 16; .* has 32; give both the"
    ):
        build_stream_graph(env._sinks, parallelism=2)
    again.set_max_parallelism(32).set_parallelism(3)
    with pytest.raises(ConfigError, match=r"cannot stay in their subtasks for 'again' \(parallelism 3\)"):
        build_stream_graph(env._sinks, parallelism=2)


def test_records_that_were_dealt_otherwise_are_refused() -> None:
    numbers = inline().from_collection([(1,)])

    with pytest.raises(ConfigError, match=r"leaves records where they are; got a stream behind rebalance\("):
        numbers.rebalance().reinterpret_as_keyed_stream(first)
    with pytest.raises(ConfigError, match=r"got a stream behind key_by\(\.\.\.\); call it behind the step"):
        numbers.key_by(first).reinterpret_as_keyed_stream(first)
    with pytest.raises(ConfigError, match="reinterpret_as_keyed_stream takes a function that returns a key"):
        numbers.reinterpret_as_keyed_stream(1.5)  # type: ignore[call-overload]  # what a user may try


def test_the_plan_shows_the_state_of_both(tmp_path: Path) -> None:
    env = inline()
    counted_twice(env.from_collection(words(1))).print()

    plan = env.explain()

    assert plan.count("per key, in 128 key groups") == 2
    assert "cached" in env.explain(code=True)


def test_fields_and_rows_can_be_keys() -> None:
    stream_type = Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()])

    class Pass(KeyedProcessFunction):
        def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:
            yield value

    def sums(stream: DataStream) -> DataStream:
        rows = stream.map(lambda value: Row(*value), stream_type).key_by("name").process(Pass(), stream_type)
        return rows.reinterpret_as_keyed_stream("name", Types.STRING()).sum("amount")

    with Harness(sums, parallelism=2) as harness:
        harness.push_batch([("a", 1), ("b", 2), ("a", 3)])
        assert sorted(tuple(row) for row in harness.take()) == [("a", 1), ("a", 4), ("b", 2)]
