"""A source whose records cost what they cost to read, or that waits for each; the step behind it does nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment


def main(directory: str, settings: dict[str, Any], cost: int, rate: float | None) -> None:
    def decode(number: int) -> int:
        return sum(range(cost)) + number

    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = GeneratorSource(decode, None, rate_per_second=rate)
    numbers = env.from_source(source, source_name="numbers").uid("numbers").set_parallelism(1)
    numbers.rebalance().map(abs).uid("behind").sink_to(FileSink(directory))
    env.execute("reading")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), **json.loads(sys.argv[3]))
