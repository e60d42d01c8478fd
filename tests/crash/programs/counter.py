"""A counting source function that notes its position, the program that is killed while it counts."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from tidegate.connectors.files import FileSink
from tidegate.connectors.functions import ParallelSourceFunction
from tidegate.datastream import StreamExecutionEnvironment


class Counter(ParallelSourceFunction):
    def __init__(self, count: int) -> None:
        self.count = count
        self.offset = 0
        self.running = True

    def open(self, runtime_context: Any) -> None:
        self.step = runtime_context.get_number_of_parallel_subtasks()
        self.offset = self.offset or runtime_context.get_index_of_this_subtask()

    def run(self, ctx: Any) -> None:
        while self.running and self.offset < self.count:
            with ctx.get_checkpoint_lock():
                ctx.collect({"id": self.offset})
                self.offset += self.step

    def cancel(self) -> None:
        self.running = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        (self.offset,) = state


def main(directory: str, count: int, rate: float, settings: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.add_source(Counter(40 * count)).rebalance().sink_to(FileSink(directory)).uid("files")
    print(json.dumps(dataclasses.asdict(env.execute("totals"))))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
