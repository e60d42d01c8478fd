"""Values without a declared type (steps mapped, of rows, out collect).

Compared in order.
"""

from pyflink.common import Row, RowKind
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [Row(id=1, name="a"), Row(name="b", id=2), Row(3, "c"), Row.of_kind(RowKind.DELETE, 4, "d")]
)
result = values.map(lambda value: (type(value).__name__, value))
with result.execute_and_collect() as records:
    for record in records:
        print(record)
