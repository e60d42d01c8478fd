"""A pipeline changes executors while windows are open, timers are set and records are on their way."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.conftest import SPARK_ONLY
from tests.waiting import until
from tidegate.backends.storage import open_storage
from tidegate.common import Duration, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.errors import JobFailedError
from tidegate.ids import PipelineId
from tidegate.runtime.checkpoint.timeline import Timeline
from tidegate.runtime.client import JobClient

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), SPARK_ONLY]

COUNT, KEYS, STEP_MS, SIZE_MS = 3_000, 5, 10, 1_000
LAST = COUNT * STEP_MS


def sums() -> ProcessWindowFunction:
    """The sum of each key's window."""

    class Sums(ProcessWindowFunction):
        def process(self, key: int, context: Any, elements: Any) -> Iterator[list[int]]:
            yield [key, context.window().start, sum(elements)]

    return Sums()


def alarms() -> KeyedProcessFunction:
    """Numbers the windows of each key, which also has an alarm by either time."""

    class Alarms(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.windows = runtime_context.get_state(ValueStateDescriptor("windows", Types.LONG(), 0))

        def process_element(self, value: list[int], ctx: Any) -> Iterator[Any]:
            if self.windows.value() == 0:
                service = ctx.timer_service()
                service.register_event_time_timer(LAST - SIZE_MS)
                service.register_processing_time_timer(service.current_processing_time() + 300)
            self.windows.update(self.windows.value() + 1)
            yield ["window", *value, self.windows.value()]

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ["event" if timestamp == LAST - SIZE_MS else "clock", ctx.get_current_key()]

    return Alarms()


def start(
    directory: Path, rate: float | None = None, *, fails: bool = False, settings: dict[str, Any]
) -> JobClient:
    """Sums per key and second, then how many windows each key has, and two alarms for each key."""

    def fail_half_way(number: int) -> int:
        if fails and number == COUNT // 4:
            raise RuntimeError("half-way")
        return number

    def slowly(number: int) -> int:
        if fails:
            threading.Event().wait(0.002)
        return number

    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "pipeline.progress": "off",
            "execution.spark.epoch-records": 200,
            "execution.checkpointing.interval": "50 ms",
            "state.checkpoints.dir": str(directory / "state"),
            "state.savepoints.dir": str(directory),
            "restart-strategy.type": "none",
            **settings,
        }
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * STEP_MS)
    source = GeneratorSource(lambda n: n, count=COUNT, splits=2, rate_per_second=rate)
    numbers = env.from_source(source, times).uid("numbers").map(fail_half_way).uid("fails")
    dealt = numbers.rebalance().map(slowly).uid("slowly")
    windows = dealt.key_by(lambda n: n % KEYS).window(
        TumblingEventTimeWindows.of(Duration.of_millis(SIZE_MS))
    )
    summed = windows.process(sums()).uid("sums")
    rung = summed.key_by(lambda row: row[0]).process(alarms()).uid("alarms")
    rung.map(json.dumps).sink_to(FileSink(str(directory / "out"))).uid("out")
    return env.execute_async("windows")


def rows(directory: Path) -> list[list[Any]]:
    files = (directory / "out").glob("part-*")
    found = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return [json.loads(row) if isinstance(row, str) else row for row in found]


def check(directory: Path) -> None:
    """Every window once with all its records, each key's windows numbered, and each alarm once."""
    found = rows(directory)
    sums = {
        (key, begin): total for kind, key, begin, total, _ in (row for row in found if row[0] == "window")
    }
    expected: Counter[tuple[int, int]] = Counter()
    for number in range(COUNT):
        expected[number % KEYS, number * STEP_MS // SIZE_MS * SIZE_MS] += number
    assert sums == expected
    assert len([row for row in found if row[0] == "window"]) == len(expected)
    numbered = Counter((row[1], row[4]) for row in found if row[0] == "window")
    assert numbered == Counter((key, n) for key in range(KEYS) for n in range(1, LAST // SIZE_MS + 1))
    assert sorted(row for row in found if row[0] == "event") == [["event", key] for key in range(KEYS)]
    rung = Counter(row[1] for row in found if row[0] == "clock")
    assert set(rung.values()) <= {1}


@pytest.mark.parametrize(
    ("first", "then", "backend", "parallelism"),
    [("local[2]", "inline", "rocksdb", 3), ("inline", "local[2]", "heap", 3)],
    ids=["from-spark", "to-spark"],
)
@pytest.mark.parametrize("form", ["native", "canonical"])
def test_windows_and_timers_go_on_from_a_savepoint_on_the_other_executor(
    tmp_path: Path, first: str, then: str, backend: str, parallelism: int, form: Any
) -> None:
    client = start(tmp_path, 250, settings={"execution.target": first, "parallelism.default": 2})
    until(lambda: len(rows(tmp_path)) >= 10, job=client)
    place = client.stop_with_savepoint(False, format_type=form).result(timeout=120)
    assert client.get_job_execution_result().result(timeout=120).state == "stopped"
    before = len(rows(tmp_path))
    assert 0 < before < COUNT * STEP_MS // SIZE_MS * KEYS

    goes_on: dict[str, Any] = {
        "execution.target": then,
        "parallelism.default": parallelism,
        "state.backend.type": backend,
        "execution.savepoint.path": place,
        "execution.spark.epoch-records": 1_000,
    }
    result = start(tmp_path, settings=goes_on).get_job_execution_result().result(timeout=120)

    assert result.state == "finished"
    check(tmp_path)


def test_records_on_their_way_and_open_windows_go_on_on_spark(tmp_path: Path) -> None:
    overtaking: dict[str, Any] = {
        "execution.target": "inline",
        "execution.checkpointing.unaligned.enabled": True,
        "parallelism.default": 2,
    }
    failing = start(tmp_path, 2_000, fails=True, settings=overtaking)
    with pytest.raises(JobFailedError, match="half-way"):
        failing.get_job_execution_result().result(timeout=120)
    with Timeline(open_storage(str(tmp_path / "state")), PipelineId("windows")) as timeline:
        kept = [operator.uid for operator in timeline.manifest(None).operators if operator.in_flight]
    assert "slowly" in kept, "records were on their way"

    result = start(tmp_path, settings={"execution.target": "local[2]", "parallelism.default": 3})

    assert result.get_job_execution_result().result(timeout=120).state == "finished"
    check(tmp_path)
