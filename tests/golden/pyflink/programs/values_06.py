"""Values of declared types, and what a function sees of them (steps through, of rows).

Compared in order.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [("a", 1, True), Row("b", 2, False), ["c", None, None], Row(None, 4, True)],
    type_info=Types.ROW([Types.STRING(), Types.LONG(), Types.BOOLEAN()]),
)
result = (
    values.map(lambda value: value, Types.ROW([Types.STRING(), Types.LONG(), Types.BOOLEAN()]))
    .rebalance()
    .map(lambda value: repr(value))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
