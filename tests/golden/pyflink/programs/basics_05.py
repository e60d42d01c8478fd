"""Map, flat map and filter (source int, map lambda, flat generator, filter class, type typed, mode streaming, out collect).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import FilterFunction, StreamExecutionEnvironment


def halves(number):
    while number > 0:
        yield number
        number //= 2


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([-5, 18, 8, 15, -7, -5, -3, 19], type_info=Types.INT())
result = (
    numbers.map(lambda number: number * 3, output_type=Types.LONG())
    .flat_map(halves, output_type=Types.LONG())
    .filter(Odd())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
