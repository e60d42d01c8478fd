"""Slow look-ups of a generated stream, the program that is killed with requests under way."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import Any

from tidegate.common import Duration
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.async_data_stream import AsyncDataStream
from tidegate.runtime.stream.async_data_stream import AsyncFunction


class Lookup(AsyncFunction):
    async def async_invoke(self, value: int) -> list[dict[str, int]]:
        await asyncio.sleep(0.02 + value % 5 / 100)
        return [{"id": value}]


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    ordered = settings.pop("ordered")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    numbers = env.from_source(GeneratorSource(int, count=count, splits=3, rate_per_second=rate)).rebalance()
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    found = wait(numbers, Lookup(), Duration.of_seconds(30), 60).uid("ask")
    found.sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
