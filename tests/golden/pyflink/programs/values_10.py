"""Values of declared types, and what a function sees of them (steps through, of named-rows).

Compared in order.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [(1, "a"), Row(2, "b"), Row(id=3, name="c"), Row(4, None)],
    type_info=Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]),
)
result = (
    values.map(lambda value: value, Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]))
    .rebalance()
    .map(lambda value: repr(value))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
