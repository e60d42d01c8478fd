"""Sums per window behind sums per batch, which an installed package makes, behind a step that may be slow."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.common import Time, WatermarkStrategy
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.window import TumblingEventTimeWindows

WINDOW_MS = 50


def payment(number: int) -> tuple[int, str, int]:
    """Time, account, amount."""
    return number, f"account-{number * 7919 % 7}", number % 13


def main(directory: str, count: int, rate: float, settings: dict[str, Any], pause_s: float) -> None:
    def pair(payment: tuple[int, str, int]) -> tuple[str, int]:
        SYSTEM_CLOCK.sleep(pause_s)
        return payment[1:]

    def named(total: tuple[str, int, int, int]) -> dict[str, Any]:
        return dict(zip(("account", "window", "amount", "count"), total, strict=True))

    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda p, _: p[0])
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(payment, count=count, splits=1, rate_per_second=rate)
    payments = env.from_source(source, times, "payments").set_parallelism(1).rebalance()
    sums = payments.map(pair).uid("pairs").transform("sums", "local-sums", WINDOW_MS).uid("sums")
    windows = sums.key_by(lambda s: s[:2]).window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    totals = windows.reduce(lambda a, b: (*a[:2], a[2] + b[2], a[3] + b[3])).uid("windows")
    totals.map(named).uid("named").sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    directory, count, rate, settings, pause_s = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings), float(pause_s))
