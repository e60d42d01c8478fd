"""Values of declared types, and what a function sees of them (steps seen, of booleans).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([True, False], type_info=Types.BOOLEAN())
result = values.map(lambda value: f"{type(value).__name__} {value!r}", Types.STRING())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
