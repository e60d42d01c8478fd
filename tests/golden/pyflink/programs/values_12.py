"""Values of declared types, and what a function sees of them (steps through, of doubles).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([1.0, 0.1, 1e20, 3.25], type_info=Types.DOUBLE())
result = values.map(lambda value: value, Types.DOUBLE()).rebalance().map(lambda value: repr(value))
with result.execute_and_collect() as records:
    for record in records:
        print(record)
