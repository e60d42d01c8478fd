"""Values of declared types, and what a function sees of them (steps kept, of short-numbers).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [(1, 2, 3, 4), (-128, -32768, -2147483648, -9223372036854775808)],
    type_info=Types.TUPLE([Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()]),
)
result = values.filter(lambda value: True)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
