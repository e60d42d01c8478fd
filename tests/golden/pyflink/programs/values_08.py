"""Values of declared types, and what a function sees of them (steps kept, of tuples).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [("a", 1, 0.5), ("b", -2, 1e20), ["c", 3, 2.0]],
    type_info=Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]),
)
result = values.filter(lambda value: True)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
