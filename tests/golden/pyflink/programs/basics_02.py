"""Map, flat map and filter (source int, map lambda, flat generator, filter lambda, type untyped, mode batch, out print).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


def halves(number):
    while number > 0:
        yield number
        number //= 2


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
numbers = env.from_collection([13, -8, -3, 9, 9, -3, -6, -3], type_info=Types.INT())
result = numbers.map(lambda number: number * 3).flat_map(halves).filter(lambda number: number % 2 == 0)
result.print()
env.execute()
