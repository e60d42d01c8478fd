"""Map, flat map and filter (source untyped, map class, flat generator, filter class, type untyped, mode streaming, out print).

Compared in order.
"""

from pyflink.datastream import FilterFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment


class Scaled(MapFunction):
    def __init__(self, factor):
        self.factor = factor

    def open(self, runtime_context: RuntimeContext):
        self.seen = 0

    def map(self, value):
        self.seen += 1
        return value * self.factor + self.seen


def halves(number):
    while number > 0:
        yield number
        number //= 2


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([9, -5, -9, 13, 7, -7, 4, -4])
result = numbers.map(Scaled(3)).flat_map(halves).filter(Odd())
result.print()
env.execute()
