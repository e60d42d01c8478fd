"""Values of declared types, and what a function sees of them (steps through, of floats).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [(0.1, 1.0), (1e-7, 1e7), (float("inf"), -0.0), (123456789.125, 100.0)],
    type_info=Types.TUPLE([Types.DOUBLE(), Types.DOUBLE()]),
)
result = (
    values.map(lambda value: value, Types.TUPLE([Types.DOUBLE(), Types.DOUBLE()]))
    .rebalance()
    .map(lambda value: repr(value))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
