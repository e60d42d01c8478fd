"""Values of declared types, and what a function sees of them (steps through, of instants).

Compared in order.
"""

from pyflink.common import Instant, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [Instant.of_epoch_milli(1500), Instant.of_epoch_milli(0), Instant(-1, 5)], type_info=Types.INSTANT()
)
result = values.map(lambda value: value, Types.INSTANT()).rebalance().map(lambda value: repr(value))
with result.execute_and_collect() as records:
    for record in records:
        print(record)
