"""Map, flat map and filter (source untyped, map class, flat class, filter lambda, type untyped, mode batch, out print).

Compared in order.
"""

from pyflink.datastream import (
    FlatMapFunction,
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


class Digits(FlatMapFunction):
    def flat_map(self, value):
        for digit in str(abs(value)):
            yield int(digit)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
numbers = env.from_collection([0, 13, 8, -5, -7, -2, -8, -2])
result = numbers.map(Scaled(3)).flat_map(Digits()).filter(lambda number: number % 2 == 0)
result.print()
env.execute()
