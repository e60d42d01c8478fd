"""Values of declared types, and what a function sees of them (steps kept, of long-numbers).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [(9223372036854775807, 1.5), (-9223372036854775808, 1e-300)],
    type_info=Types.TUPLE([Types.LONG(), Types.DOUBLE()]),
)
result = values.filter(lambda value: True)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
