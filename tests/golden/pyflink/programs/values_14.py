"""Values of declared types, and what a function sees of them (steps seen, of nested).

Compared in order.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([Row(1, Row(0.5, "p")), Row(2, Row(1.5, None)), Row(3, None)]).map(
    lambda value: value,
    Types.ROW_NAMED(
        ["id", "inner"], [Types.INT(), Types.ROW_NAMED(["x", "y"], [Types.DOUBLE(), Types.STRING()])]
    ),
)
result = values.map(lambda value: f"{type(value).__name__} {value!r}", Types.STRING())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
