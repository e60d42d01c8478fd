"""Prints how it was told to run: parallelism from each subtask, and its own arguments."""

from __future__ import annotations

import sys
from typing import Any

from tidegate.datastream import MapFunction, StreamExecutionEnvironment


class Told(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.told = (
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_task_name(),
        )

    def map(self, value: int) -> tuple[int, str]:
        return self.told


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    print(
        sorted(set(env.from_collection(range(12)).map(Told()).name("told").execute_and_collect())),
        sys.argv[1:],
    )
