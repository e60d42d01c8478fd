"""Numbers of three sources, one after the other, written to files."""

from __future__ import annotations

import json
import sys
from typing import Any

from tidegate.connectors.generator import GeneratorSource
from tidegate.connectors.hybrid import HybridSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.file_system import FileSink


def stage(first: int, count: int, rate: float) -> GeneratorSource[dict[str, Any]]:
    return GeneratorSource(lambda number: {"id": first + number}, count, splits=4, rate_per_second=rate)


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    third = count // 3
    source = HybridSource(
        (
            stage(0, third, rate),
            lambda end: stage(end, third, rate),
            lambda end: stage(2 * end, count - 2 * third, rate),
        )
    )
    env.from_source(source, source_name="numbers").sink_to(FileSink(directory)).uid("files")
    env.execute("totals")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
