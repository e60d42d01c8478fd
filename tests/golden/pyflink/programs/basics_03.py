"""Map, flat map and filter (source long, map class, flat list, filter class, type typed, mode batch, out print).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import (
    FilterFunction,
    MapFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)


class Scaled(MapFunction):
    def __init__(self, factor):
        self.factor = factor

    def open(self, runtime_context: RuntimeContext):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        return value * self.factor + self.seen


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
numbers = env.from_collection([1, 16, 4, -4, 2, 15, 12, 2], Types.LONG())
result = (
    numbers.map(Scaled(3), output_type=Types.LONG())
    .flat_map(lambda number: [number, -number], output_type=Types.LONG())
    .filter(Odd())
)
result.print()
env.execute()
