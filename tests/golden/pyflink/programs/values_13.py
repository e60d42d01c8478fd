"""Values of declared types, and what a function sees of them (steps through, of lists-of-tuples).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([[("a", 1), ("b", 2)], []]).map(
    lambda value: value, Types.LIST(Types.TUPLE([Types.STRING(), Types.INT()]))
)
result = (
    values.map(lambda value: value, Types.LIST(Types.TUPLE([Types.STRING(), Types.INT()])))
    .rebalance()
    .map(lambda value: repr(value))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
