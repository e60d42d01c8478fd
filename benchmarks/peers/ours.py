"""The jobs on tidegate: the embedded executor with one task, the default backend, a checkpoint every second."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks.jobs import DiscardingSink
from benchmarks.peers.jobs import (
    GAP_MS,
    WINDOW_MS,
    Payment,
    add,
    both,
    is_kept,
    key_of,
    payment,
    shown,
    stepped,
    time_of,
)
from benchmarks.peers.serve import serve
from tidegate.common import Duration, WatermarkStrategy
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

SETTINGS = {"parallelism.default": 1, "pipeline.progress": "off", "execution.checkpointing.interval": 1_000}


def run(job: str, records: int, wanted: bool) -> list[Any] | None:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as root:
        env = StreamExecutionEnvironment.get_execution_environment(
            {**SETTINGS, "state.checkpoints.dir": root}
        )
        results = STREAMS[job](env.from_collection(range(records)))
        if wanted:
            return list(results.execute_and_collect())
        results.sink_to(DiscardingSink())
        env.execute(job)
    return None


def chain(numbers: DataStream) -> DataStream:
    return numbers.map(stepped).filter(is_kept).flat_map(both).map(shown)


def running_sum(numbers: DataStream) -> DataStream:
    return numbers.map(payment).key_by(key_of).reduce(add)


def tumbling(numbers: DataStream) -> DataStream:
    size = Duration.of_millis(WINDOW_MS)
    return stamped(numbers).key_by(key_of).window(TumblingEventTimeWindows.of(size)).reduce(add)


def session(numbers: DataStream) -> DataStream:
    gap = Duration.of_millis(GAP_MS)
    return stamped(numbers).key_by(key_of).window(EventTimeSessionWindows.with_gap(gap)).reduce(add)


def stamped(numbers: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(stamp_of)
    return numbers.map(payment).assign_timestamps_and_watermarks(strategy)


def stamp_of(made: Payment, _: int | None) -> int:
    return time_of(made)


STREAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "chain": chain,
    "sum": running_sum,
    "tumbling": tumbling,
    "session": session,
}

if __name__ == "__main__":
    serve(run)
