"""A source that could be quick, before a step that takes its time with each record."""

from __future__ import annotations

import json
import sys
from typing import Any

from tidegate.clock import SYSTEM_CLOCK
from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment


def main(directory: str, settings: dict[str, Any], delay_s: float) -> None:
    def take_time(number: int) -> int:
        if delay_s:
            SYSTEM_CLOCK.sleep(delay_s)
        return number

    env = StreamExecutionEnvironment.get_execution_environment(settings)
    numbers = (
        env.from_source(GeneratorSource(int, None), source_name="numbers").uid("numbers").set_parallelism(1)
    )
    numbers.rebalance().map(take_time).uid("slow").sink_to(FileSink(directory))
    env.execute("pressed")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])["delay_s"])
