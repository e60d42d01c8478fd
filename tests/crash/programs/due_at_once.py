"""A timer for each record, half of them due at one watermark in the middle of the input, and slow to fire."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment

LEAP_MS = 1_000_000


class Rings(KeyedProcessFunction):
    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(value["time"] + LEAP_MS)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        SYSTEM_CLOCK.sleep(self.pause_s)
        yield {"id": ctx.get_current_key(), "time": timestamp}


def main(directory: str, count: int, rate: float, settings: dict[str, Any], pause_s: float) -> None:
    def record(number: int) -> dict[str, Any]:
        return {"id": number, "time": number % 5 if number < count // 2 else 2 * LEAP_MS}

    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r["time"])
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(record, count=count, splits=1, rate_per_second=rate)
    records = env.from_source(source, times, "records").set_parallelism(1)
    rings = records.key_by(lambda r: r["id"]).process(Rings(pause_s)).uid("rings")
    rings.sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    directory, count, rate, settings, pause_s = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings), float(pause_s))
