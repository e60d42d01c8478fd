"""Map, flat map and filter (source long, map lambda, flat list, filter lambda, type untyped, mode streaming, out collect).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 3, 0, -3, 4, -3, 13, -3], Types.LONG())
result = (
    numbers.map(lambda number: number * 3)
    .flat_map(lambda number: [number, -number])
    .filter(lambda number: number % 2 == 0)
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
