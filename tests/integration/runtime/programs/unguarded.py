"""A script as people write it: no function, no main guard; its own class travels with it."""

import os

from tidegate.datastream import MapFunction, StreamExecutionEnvironment


class Where(MapFunction):
    def map(self, value: int) -> tuple[int, int]:
        return value * value, os.getpid()


env = StreamExecutionEnvironment.get_execution_environment()
results = list(env.from_collection(range(6)).map(Where()).execute_and_collect())
print(sorted(square for square, _ in results))
print(len({pid for _, pid in results}), os.getpid() in {pid for _, pid in results})
