"""Batch jobs on Spark: what they write is what the embedded executor writes, and what can be asked of them is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.waiting import until
from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Duration, WatermarkStrategy
from tidegate.connectors.collection import CollectSink, read_collected
from tidegate.connectors.generator import GeneratorSource, NumberSequenceSource
from tidegate.connectors.hybrid import HybridSource
from tidegate.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.elements import Batch
from tidegate.errors import ConfigError, JobCancelledError, JobFailedError, UnavailableError
from tidegate.ids import CheckpointId
from tidegate.twophase.spi import SinkWriter, WriterContext
from tidegate.types import Types

Env = StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])
Item = tuple[int, int, int]
"""Key, time, amount."""


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Executors cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def environment(target: str, **more: Any) -> Env:
    return Env.get_execution_environment(
        {
            "execution.target": target,
            "execution.runtime-mode": "BATCH",
            "execution.sorted-inputs.memory": "1 kb",
            "parallelism.default": 3,
            "pipeline.progress": "off",
            "restart-strategy.fixed-delay.attempts": 0,
            **more,
        }
    )


ODD: OutputTag = OutputTag("odd")
NAMES = MapStateDescriptor("names", Types.LONG(), Types.STRING())


class Parts(ProcessFunction):
    def process_element(self, value: Item, ctx: Any) -> Iterator[Any]:
        yield value
        if value[2] % 2:
            yield ODD, value


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums", default=(0, 0)))

    def process_element1(self, value: Item, ctx: Any) -> None:
        self._add(value[2], 0, ctx)

    def process_element2(self, value: Item, ctx: Any) -> None:
        self._add(0, value[2], ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "both", ctx.get_current_key(), self.sums.value()

    def _add(self, one: int, two: int, ctx: Any) -> None:
        sums = self.sums.value()
        self.sums.update((sums[0] + one, sums[1] + two))
        ctx.timer_service().register_event_time_timer(0)


class Named(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, value: tuple[int, str], ctx: Any) -> None:
        ctx.get_broadcast_state(NAMES).put(*value)

    def process_element(self, value: Item, ctx: Any) -> Iterator[Any]:
        yield "named", ctx.get_broadcast_state(NAMES).get(value[0] % 2), value


def program(env: Env, items: list[Item], out: Path) -> None:
    """Windows, co-processing, broadcast state, a reduction, a side output and several sinks, with exchanges that skip levels."""
    read = env.from_collection(items, Types.PICKLED_BYTE_ARRAY()).assign_timestamps_and_watermarks(BY_TIME)
    parts = read.rebalance().process(Parts())
    keyed = parts.key_by(lambda item: item[0])
    windows = keyed.window(TumblingEventTimeWindows.of(Duration.of_millis(10))).sum(2)
    reduced = keyed.reduce(lambda one, two: (one[0], max(one[1], two[1]), one[2] + two[2]))
    both = keyed.connect(parts.get_side_output(ODD).key_by(lambda item: item[0])).process(Both())
    named = reduced.key_by(lambda item: item[0]).connect(
        env.from_collection([(0, "even"), (1, "odd")]).broadcast(NAMES)
    )
    several = {
        "windows": windows,
        "reduced": reduced.union(windows).map(lambda item: (item[0], item[2])),
        "both": both.union(named.process(Named())),
        "read": read.map(lambda item: item),
    }
    for name, stream in several.items():
        stream.sink_to(CollectSink(str(out / name))).uid(name)


def written(target: str, items: list[Item], out: Path) -> dict[str, Counter[Any]]:
    env = environment(target)
    program(env, items, out)
    assert env.execute("several").state == "finished"
    return {sink.name: Counter(read_collected(sink)) for sink in sorted(out.iterdir())}


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 40), st.integers(-3, 3)), min_size=1, max_size=60
    )
)
def test_every_sink_has_what_it_has_on_the_embedded_executor(
    items: list[Item], tmp_path_factory: pytest.TempPathFactory
) -> None:
    here, there = tmp_path_factory.mktemp("inline"), tmp_path_factory.mktemp("spark")

    assert written("local[2]", items, there) == written("inline", items, here)


def failing_once(witness: Path) -> Callable[[Any], Any]:
    def once(value: Any) -> Any:
        if not witness.exists():
            witness.touch()
            raise ValueError("this happens once")
        return value

    return once


def test_an_error_of_the_program_runs_all_of_it_again_and_its_output_is_there_once(tmp_path: Path) -> None:
    env = environment(
        "local[2]",
        **{"restart-strategy.fixed-delay.attempts": 1, "restart-strategy.fixed-delay.delay": "1 ms"},
    )
    numbers = env.from_source(GeneratorSource(abs, count=500, splits=7))
    numbers.sink_to(CollectSink(str(tmp_path / "numbers")))
    sums = numbers.key_by(lambda number: number % 5).sum().map(failing_once(tmp_path / "failed"))
    sums.sink_to(CollectSink(str(tmp_path / "sums")))
    result = env.execute("again")

    assert (result.state, result.restarts) == ("finished", 1)
    assert sorted(read_collected(tmp_path / "numbers")) == list(range(500))
    assert sorted(read_collected(tmp_path / "sums")) == [sum(range(n, 500, 5)) for n in range(5)]


def test_one_checkpoint_is_taken_and_everything_is_read_in_it(tmp_path: Path) -> None:
    env = environment(
        "local[2]", **{"execution.runtime-mode": "AUTOMATIC", "execution.spark.epoch-records": 10}
    )
    env.from_source(GeneratorSource(abs, count=1_000, splits=7)).key_by(lambda n: n % 5).sum().sink_to(
        CollectSink(str(tmp_path))
    )
    result = env.execute("one")

    assert (result.checkpoint, result.records) == (1, 1_000)
    assert len(list(read_collected(tmp_path))) == 5


class Lapsing(SinkWriter):
    """Writes files as `CollectSink` does; what it has prepared is gone after half a second."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, batch: Batch) -> None:
        self._writer.write(batch)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, str, int] | None:
        prepared: tuple[bytes, str, int] | None = self._writer.prepare(checkpoint)
        return prepared

    def expires_in_ms(self) -> int:
        return 500

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True)
class LapsingSink(CollectSink):
    def open_writer(self, context: WriterContext) -> Any:
        return Lapsing(super().open_writer(context))


def slow(value: int) -> int:
    SYSTEM_CLOCK.sleep(0.6)
    return value


def test_what_an_early_stage_has_prepared_is_not_committed_when_it_could_have_run_out(tmp_path: Path) -> None:
    env = environment("local[2]", **{"execution.checkpointing.interval": "100 ms"})
    numbers = env.from_collection([1])
    numbers.sink_to(LapsingSink(str(tmp_path / "early")))
    numbers.key_by(lambda number: number).sum().map(slow).sink_to(CollectSink(str(tmp_path / "late")))

    with pytest.raises(JobFailedError, match="prepared work could expire before its commit"):
        env.execute("late")
    assert [*read_collected(tmp_path / "early"), *read_collected(tmp_path / "late")] == []


def test_sources_one_after_the_other_are_read_to_the_last(tmp_path: Path) -> None:
    env = environment("local[2]", **{"state.checkpoints.dir": str(tmp_path)})
    later = lambda end: GeneratorSource(lambda number: end + number, count=10, splits=3)  # noqa: E731 # travels by value
    stages = (GeneratorSource(abs, count=200, splits=5), later, NumberSequenceSource(210, 230))

    values = list(env.from_source(HybridSource(stages), source_name="all").execute_and_collect())

    assert sorted(values) == list(range(231))


def hanging(flag: Path) -> Callable[[Any], Any]:
    def hang(value: Any) -> Any:
        flag.touch()
        while True:
            SYSTEM_CLOCK.sleep(0.05)

    return hang


def test_a_stop_cancels_a_batch_job_and_a_savepoint_of_it_is_refused(tmp_path: Path) -> None:
    env = environment("local[2]", **{"state.checkpoints.dir": str(tmp_path / "state")})
    (tmp_path / "out").mkdir()
    hung = env.from_collection(range(10)).map(hanging(tmp_path / "hangs"))
    hung.sink_to(CollectSink(str(tmp_path / "out")))
    client = env.execute_async("stuck")
    until((tmp_path / "hangs").exists)

    with pytest.raises(UnavailableError, match="batch job 'stuck' takes one only at its end"):
        client.trigger_savepoint(str(tmp_path / "savepoint")).result()
    client.stop()
    with pytest.raises(JobCancelledError, match="only at its end; the job was cancelled"):
        client.get_job_execution_result().result()
    assert list(read_collected(tmp_path / "out")) == []


def test_what_cannot_run_in_one_pass_is_refused_when_planned() -> None:
    env = environment("local[1]")
    with pytest.warns(DeprecationWarning, match="iterate"):
        iteration = env.from_parallel_collection([1]).iterate(1)
    iteration.close_with(iteration.filter(bool)).print()

    with pytest.raises(ConfigError, match=r"iteration '.*' cannot be part of a batch job.*use STREAMING"):
        env.execute("rounds")
