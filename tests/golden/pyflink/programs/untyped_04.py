"""Values without a declared type (steps kept, of mixed, out collect).

Compared in order.
"""

import datetime

from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [1, "two", 3.0, b"four", True, (5,), [6], {7: 8}, frozenset({9}), datetime.date(2024, 1, 10)]
)
result = values.filter(lambda value: True)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
