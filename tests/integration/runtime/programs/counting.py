"""Counts what it reads, or ends before it has begun; its own arguments say which."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.generator import GeneratorSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, state


class Count(KeyedProcessFunction):
    seen = state.Value(int, default=0)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.seen.update(self.seen.value() + 1)
        yield f"{value} {self.seen.value()}"


directory, what = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment({"execution.checkpointing.interval": "100 ms"})
numbers = env.from_source(GeneratorSource(int, count=None, rate_per_second=500)).uid("numbers")
if what == "nothing":
    print("there is nothing to count", file=sys.stderr)
    sys.exit(7)
numbers.key_by(lambda n: 0).process(Count()).uid("count").sink_to(FileSink(directory)).uid("files")
env.execute("counting")
