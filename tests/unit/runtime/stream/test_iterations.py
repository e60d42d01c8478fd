"""Iterations: what goes round, when it is over, and what is refused."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.common import WatermarkStrategy
from tidegate.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from tidegate.elements import Batch
from tidegate.errors import ConfigError, JobCancelledError, JobFailedError
from tidegate.runtime.explain import explained
from tidegate.runtime.stream.iterations import IterativeStream
from tidegate.runtime.task.exchange import ChannelId
from tidegate.runtime.task.feedback_queue import FeedbackQueue

QUIET_MS = 300


@pytest.fixture
def inline() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "inline", "pipeline.progress": "off", "parallelism.default": 1}
    )


def iterate(stream: DataStream, wait_ms: int = QUIET_MS) -> IterativeStream:
    with pytest.warns(DeprecationWarning, match=r"iterate\(\.\.\.\) is deprecated; use a loop"):
        return stream.iterate(wait_ms)


class Passes(ProcessFunction):
    """Counts down, and tells every pass to a side output."""

    tag = OutputTag("passes")

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield self.tag, value - 1
        yield value - 1


@pytest.mark.spec("002/AX-10")
def test_three_goes_round_until_it_is_nothing(anywhere: StreamExecutionEnvironment) -> None:
    iteration = iterate(anywhere.from_collection([3]))
    body = iteration.process(Passes())
    assert iteration.close_with(body.filter(lambda n: n > 0)).get_name() == "filter"

    passes = body.get_side_output(Passes.tag).map(lambda n: ("pass", n))
    results = sorted(
        body.filter(lambda n: n <= 0).map(lambda n: ("out", n)).union(passes).execute_and_collect()
    )

    assert results == [("out", 0), ("pass", 0), ("pass", 1), ("pass", 2)]


def test_records_go_round_over_exchanges_and_more_of_them_than_channels_hold(
    anywhere: StreamExecutionEnvironment,
) -> None:
    class Twins(ProcessFunction):
        """Each record comes out twice until it has gone round often enough: a cycle that fills itself."""

        def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[tuple[int, int]]:
            yield value[0], value[1] + 1
            if value[1] < 3:
                yield -value[0], value[1] + 1

    iteration = iterate(anywhere.from_collection([(n, 0) for n in range(1, 1_001)]))
    body = iteration.key_by(lambda pair: pair[0]).process(Keyed()).rebalance().process(Twins())
    iteration.close_with(body.filter(lambda pair: pair[1] < 6))

    ended = list(body.filter(lambda pair: pair[1] >= 6).execute_and_collect())

    assert len(ended) == 1_000 * 8
    assert {abs(n) for n, _ in ended} == set(range(1, 1_001))


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


def test_event_time_is_that_of_the_input_and_ends_with_the_iteration(
    anywhere: StreamExecutionEnvironment,
) -> None:
    class AtTheEnd(KeyedProcessFunction):
        """Counts by a timer that is due when time ends."""

        def open(self, runtime_context: Any) -> None:
            self.seen: dict[int, int] = {}

        def process_element(self, value: int, ctx: Any) -> None:
            self.seen[ctx.get_current_key()] = self.seen.get(ctx.get_current_key(), 0) + 1
            ctx.timer_service().register_event_time_timer(1_000_000)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
            yield ctx.get_current_key(), self.seen[ctx.get_current_key()]

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    iteration = iterate(anywhere.from_collection([4, 8]).assign_timestamps_and_watermarks(strategy))
    body = iteration.map(lambda n: n - 1)
    iteration.close_with(body.filter(lambda n: n > 0))

    counted = body.key_by(lambda n: n % 2).process(AtTheEnd())

    assert sorted(counted.execute_and_collect()) == [(0, 6), (1, 6)]


@pytest.mark.processes
def test_a_record_that_comes_back_after_the_end_fails_the_job_and_is_never_lost_silently() -> None:
    def slowly(value: int) -> int:
        threading.Event().wait(0.2)
        return value - 1

    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "embedded", "pipeline.progress": "off", "parallelism.default": 2}
    )
    iteration = iterate(env.from_collection([1_000]), 20)
    # Slow where the step that knows of the wait cannot see it: two exchanges away, in another process.
    there = iteration.partition_custom(lambda key, n: 0, lambda value: 0).map(abs).disable_chaining()
    back = there.map(slowly).partition_custom(lambda key, n: 1, lambda value: 0).map(abs)
    iteration.close_with(back)

    with pytest.raises(
        ConfigError,
        match="feedback arrived after the iteration had ended, because none had arrived for 20 ms",
    ):
        env.execute()


@pytest.mark.spec("002/AX-46")
def test_checkpoints_of_an_iterative_program_are_refused_unless_forced(
    anywhere: StreamExecutionEnvironment,
) -> None:
    def program(**how: Any) -> list[int]:
        anywhere.enable_checkpointing(20, **how)
        iteration = iterate(anywhere.from_collection([3]))
        body = iteration.map(lambda n: n - 1)
        iteration.close_with(body.filter(lambda n: n > 0))
        return list(body.filter(lambda n: n <= 0).execute_and_collect())

    with pytest.raises(ConfigError, match=r"a program with iterations takes no checkpoints.*force=True"):
        program()
    assert program(force=True) == [0]


class Endless(SourceFunction):
    def run(self, ctx: Any) -> None:
        while True:
            ctx.collect(1)


def test_an_iterative_program_is_cancelled_where_another_would_be_stopped(
    inline: StreamExecutionEnvironment,
) -> None:
    iteration = iterate(inline.add_source(Endless()))
    iteration.close_with(iteration.filter(lambda n: False))
    client = inline.execute_async()

    with pytest.raises(JobCancelledError, match="has iterations, and it would lose their in-flight records"):
        client.stop().result(timeout=60)


def test_the_plan_lists_what_goes_round_in_its_iteration(inline: StreamExecutionEnvironment) -> None:
    iteration = iterate(inline.from_collection([3]))
    body = iteration.map(lambda n: n - 1).name("less")
    iteration.close_with(body.filter(lambda n: n > 0))
    body.print()

    source, head, sink = json.loads(inline.get_execution_plan())["nodes"]

    assert (source["type"], sink["type"]) == ("Source: Collection Source", "Sink: Print to Std. Out")
    assert (head["pact"], head["type"]) == ("IterativeDataStream", f"IterationSource-{head['id']}")
    assert [each["id"] for each in head["predecessors"]] == [source["id"]]
    names = [each["type"] for each in head["step_function"]]
    assert names == ["less", "Filter", f"IterationSink-{head['id']}"]
    assert "FORWARD to chain" in inline.explain()


def test_both_ends_of_an_iteration_are_co_located(inline: StreamExecutionEnvironment) -> None:
    inline.set_parallelism(1).from_collection([1]).slot_sharing_group("wide").set_parallelism(3).print()
    iteration = iterate(inline.from_collection([3, 4, 5]).set_parallelism(3))
    body = iteration.set_parallelism(3).map(abs).set_parallelism(3).slot_sharing_group("body")
    iteration.close_with(body)
    body.print()
    program = explained(inline._launch(tuple(inline._sinks), None))

    together = {
        vertex.co_location_group: [
            [program.slots[each] for each in other.subtasks]
            for other in program.job.vertices.values()
            if other.co_location_group == vertex.co_location_group
        ]
        for vertex in program.job.vertices.values()
        if vertex.co_location_group is not None
    }

    ((group, (head, tail)),) = together.items()
    assert group == "iteration 'IterationSource-1'"
    assert head == tail
    assert len(set(head)) == 3


@pytest.mark.parametrize("parallelism", [1, 3], ids=str)
def test_feedback_of_another_parallelism_is_refused(
    inline: StreamExecutionEnvironment, parallelism: int
) -> None:
    iteration = iterate(inline.set_parallelism(2).from_collection([3]))
    iteration.close_with(iteration.map(abs).set_parallelism(parallelism))

    with pytest.raises(
        ConfigError,
        match=rf"feedback from 'map-1' \(parallelism {parallelism}\) to iteration 'IterationSource-1' \(parallelism 2\)",
    ):
        inline.get_execution_plan()


def test_an_iteration_without_feedback_is_refused(inline: StreamExecutionEnvironment) -> None:
    iterate(inline.from_collection([3])).print()

    with pytest.raises(ConfigError, match="iteration 'IterationSource-1' has no feedback stream; close it"):
        inline.get_execution_plan()


def test_an_iteration_is_closed_once_and_by_a_stream_of_its_own(inline: StreamExecutionEnvironment) -> None:
    iteration = iterate(inline.from_collection([3]))

    with pytest.raises(ConfigError, match="'collection' is not derived from the iteration that it closes"):
        iteration.close_with(inline.from_collection([4]))
    iteration.close_with(iteration.map(abs))
    with pytest.raises(ConfigError, match=r"the iteration is already closed; close it once, with a union"):
        iteration.close_with(iteration.map(abs))
    with pytest.raises(ConfigError, match="max_wait_time is 0; expected an integer of at least 1"):
        iterate(iteration, 0)


def test_spark_refuses_iterations() -> None:
    env = StreamExecutionEnvironment.on_spark("local[2]", {"pipeline.progress": "off"})
    iteration = iterate(env.from_collection([3]))
    iteration.close_with(iteration.map(abs))

    with pytest.raises(
        ConfigError, match="iteration 'IterationSource-1' is not available on Spark, where records"
    ):
        env.execute()


def test_a_failure_in_the_body_fails_the_job(anywhere: StreamExecutionEnvironment) -> None:
    iteration = iterate(anywhere.from_collection([3]))
    iteration.close_with(iteration.map(lambda n: n // 0))

    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        anywhere.execute()


def test_a_cycle_that_multiplies_keeps_every_record(anywhere: StreamExecutionEnvironment) -> None:
    iteration = iterate(anywhere.from_collection([(0, n) for n in range(2_000)]))
    body = iteration.rebalance().flat_map(lambda pair: [(pair[0] + 1, pair[1])] * 4)
    iteration.close_with(body.filter(lambda pair: pair[0] < 3))

    ended = Counter(n for level, n in body.execute_and_collect() if level == 3)

    assert ended == dict.fromkeys(range(2_000), 4**3)


def test_new_input_comes_in_while_records_go_round_that_memory_has_no_room_for(
    inline: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class UntilTold(ProcessFunction):
        """Lets everything go round until the last record of the input comes."""

        told = False

        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            self.told = self.told or value < 0
            yield (out, value) if self.told else value

    class Noting(FeedbackQueue):
        def append(self, channel: ChannelId, batch: Batch) -> None:
            super().append(channel, batch)
            spilled.append(self.spilled)

    out, spilled = OutputTag("out"), list[int]()
    monkeypatch.setattr("tidegate.runtime.task.iteration.FeedbackQueue", Noting)
    iteration = iterate(inline.from_collection([*range(40_000), -1]))
    body = iteration.process(UntilTold())
    iteration.close_with(body)

    assert Counter(body.get_side_output(out).execute_and_collect()) == Counter(range(-1, 40_000))
    assert max(spilled) > 0
