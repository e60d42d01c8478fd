"""Sources, limits and projections (of twice).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], Types.INT())
result = numbers.map(lambda number: number * 2)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
print(list(numbers.execute_and_collect("numbers")))
