"""Map, flat map and filter (source untyped, map class, flat class, filter class, type typed, mode streaming, out collect).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    RuntimeContext,
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


class Digits(FlatMapFunction):
    def flat_map(self, value):
        for digit in str(abs(value)):
            yield int(digit)


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([16, 20, -7, -1, 5, -5, 10, 11])
result = (
    numbers.map(Scaled(3), output_type=Types.LONG())
    .flat_map(Digits(), output_type=Types.LONG())
    .filter(Odd())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
