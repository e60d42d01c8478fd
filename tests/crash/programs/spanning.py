"""Numbers into files that span checkpoints, two folders of them; settings come from the command line."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from tidegate.connectors.files import FileSink, FileSinkOptions, FunctionBuckets, JsonLines, RollingPolicy
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import StreamExecutionEnvironment


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    numbers = GeneratorSource(lambda number: {"id": number}, count=count, splits=3, rate_per_second=rate)
    options = FileSinkOptions(
        rolling=RollingPolicy.default_rolling_policy(part_size=3_000),
        buckets=FunctionBuckets(lambda record: f"half={record['id'] % 2}"),
    )
    env.from_source(numbers).sink_to(FileSink(directory, JsonLines(), options)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    directory, count, rate, settings = sys.argv[1:]
    main(directory, int(count), float(rate), json.loads(settings))
