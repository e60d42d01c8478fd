"""The jobs on PyFlink, in process mode or in thread mode: one task slot, state on the heap, no checkpoints.

Numbers come from Flink's own sequence source and results go to its discarding sink, so that no record crosses between
the Java and the Python side more often than a job needs. Bundles and caches are as large as the jobs can use, objects
are reused, and in process mode the Python side is a process of its own, which is faster than the default for local runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway

from benchmarks.peers import jobs
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
from benchmarks.peers.serve import Runner, serve

SETTINGS = {
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
    "parallelism.default": "1",
    "pipeline.object-reuse": "true",
    "python.fn-execution.bundle.size": "100000",
    "python.fn-execution.arrow.batch.size": "100000",
    "python.state.cache-size": "100000",
    "python.map-state.read-cache-size": "100000",
    "python.map-state.write-cache-size": "100000",
    "rest.bind-port": "0",
}
DISCARD = "org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink"
PAYMENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


def runner(mode: str) -> Runner:
    def run(job: str, records: int, wanted: bool) -> list[Any] | None:
        configuration = Configuration()
        for key, value in {**SETTINGS, "python.execution-mode": mode}.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        source = NumberSequenceSource(0, records - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        results = STREAMS[job](numbers)
        if wanted:
            with results.execute_and_collect() as found:
                return list(found)
        results.sink_to(Sink(get_gateway().jvm.__getattr__(DISCARD)()))
        env.execute(job)
        return None

    return run


def chain(numbers: Any) -> Any:
    changed = numbers.map(stepped, Types.LONG()).filter(is_kept)
    return changed.flat_map(both, Types.LONG()).map(shown, Types.LONG())


def running_sum(numbers: Any) -> Any:
    return numbers.map(payment, PAYMENT).key_by(key_of, Types.STRING()).reduce(add)


def tumbling(numbers: Any) -> Any:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    return stamped(numbers).key_by(key_of, Types.STRING()).window(windows).reduce(add, output_type=PAYMENT)


def session(numbers: Any) -> Any:
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))
    return stamped(numbers).key_by(key_of, Types.STRING()).window(windows).reduce(add, output_type=PAYMENT)


class Stamp(TimestampAssigner):  # type: ignore[misc]  # the library is not installed here
    def extract_timestamp(self, value: Payment, record_timestamp: int) -> int:
        return time_of(value)


def stamped(numbers: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    return numbers.map(payment, PAYMENT).assign_timestamps_and_watermarks(strategy)


STREAMS: dict[str, Callable[[Any], Any]] = {
    "chain": chain,
    "sum": running_sum,
    "tumbling": tumbling,
    "session": session,
}

if __name__ == "__main__":
    cloudpickle.register_pickle_by_value(jobs)
    serve(runner(sys.argv[1]))
