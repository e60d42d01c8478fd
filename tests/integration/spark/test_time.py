"""Time, pace and programs of other shapes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tidegate.common import Types
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = {"pipeline.progress": "off", "execution.checkpointing.interval": "50 ms"}
    return StreamExecutionEnvironment.on_spark("local[2]", settings).set_parallelism(2)


def alarm(delay_ms: int, kind: str) -> KeyedProcessFunction:
    """Counts the records of a key and emits the count when a timer rings, not before."""

    class Alarm(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), 0))

        def process_element(self, value: Any, ctx: Any) -> Any:
            service = ctx.timer_service()
            self.count.update(self.count.value() + 1)
            if kind == "event":
                service.register_event_time_timer(1_000)
            elif self.count.value() == 1:
                service.register_processing_time_timer(service.current_processing_time() + delay_ms)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield (ctx.get_current_key(), self.count.value())

    return Alarm()


def test_event_time_ends_with_the_input(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(range(100)).key_by(lambda n: n % 3).process(alarm(0, "event"))

    assert dict(stream.execute_and_collect()) == {0: 34, 1: 33, 2: 33}


def test_processing_time_timers_ring_in_a_later_epoch(env: StreamExecutionEnvironment) -> None:
    env.configure({"execution.spark.epoch-records": 10})  # so that there is more to read in the next epoch
    source = GeneratorSource(lambda n: n, count=90, splits=2)
    stream = env.from_source(source).key_by(lambda n: 0).process(alarm(1, "processing"))

    ((key, count),) = list(stream.execute_and_collect())

    assert key == 0
    assert 1 < count < 90


def test_a_program_without_an_exchange_runs_in_one_stage(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(range(100)).map(lambda n: n * 2).filter(lambda n: n % 3 == 0)

    assert sorted(stream.execute_and_collect()) == list(range(0, 200, 6))


def test_stages_may_differ_in_parallelism(env: StreamExecutionEnvironment) -> None:
    read = env.from_collection(range(100)).set_parallelism(3)
    stream = read.key_by(lambda n: n % 7).map(lambda n: n % 7)

    assert Counter(stream.execute_and_collect()) == Counter(n % 7 for n in range(100))


def test_two_streams_meet_in_one_program(env: StreamExecutionEnvironment) -> None:
    left, right = env.from_collection(range(50)), env.from_collection(range(50, 100))

    assert sorted(left.union(right).execute_and_collect()) == list(range(100))
