"""How long a record is on its way between two processes that have nothing else to do: 300 records, 100 a second."""

from __future__ import annotations

import statistics
import time

from benchmarks.harness import Bar, Measured, Report, Round, Verdict, main
from benchmarks.machine import CoreMeter, machine_facts
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment

COUNT = 300
RATE = 100.0
LIMIT_MS = 10.0
NAME = "source to sink over two processes"
BAR = Bar(NAME, "no time at all", LIMIT_MS, "ms more")


def build(rounds: int) -> Report:
    meter = CoreMeter()
    seconds = [latency for _ in range(max(1, rounds // 10)) for latency in latencies()]
    arguments = {"records": COUNT, "per second": RATE, "execution.buffer-timeout": 0}
    measured = Measured(NAME, arguments, 1, 1, [Round(latency, 0.0) for latency in seconds])
    median_ms = statistics.median(seconds) * 1000
    return Report(
        "latency",
        "wall_s",
        machine_facts(),
        meter.free_cores(),
        [measured],
        [Verdict(BAR, median_ms, min(seconds) * 1000, max(seconds) * 1000, median_ms < LIMIT_MS)],
    )


def latencies() -> list[float]:
    """Seconds from the source's function to a step in the other process, of each record."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": "embedded", "pipeline.progress": "off", "parallelism.default": 1}
    ).set_buffer_timeout(0)
    source = GeneratorSource(lambda n: time.monotonic(), count=COUNT, rate_per_second=RATE)
    stream = env.from_source(source).slot_sharing_group("reading")
    arrived = stream.map(lambda sent: time.monotonic() - sent).slot_sharing_group("writing")
    return list(arrived.execute_and_collect())


if __name__ == "__main__":
    main(build)
