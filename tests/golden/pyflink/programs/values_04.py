"""Values of declared types, and what a function sees of them (steps kept, of arrays).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([([1, 2], ["a", "b"], [5]), ([], [], [])]).map(
    lambda value: value,
    Types.TUPLE(
        [
            Types.PRIMITIVE_ARRAY(Types.INT()),
            Types.BASIC_ARRAY(Types.STRING()),
            Types.OBJECT_ARRAY(Types.LONG()),
        ]
    ),
)
result = values.filter(lambda value: True)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
