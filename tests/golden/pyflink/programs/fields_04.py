"""Sums, least and greatest values of a field (how min-by, of numbers, mode batch, out collect).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
records = env.from_collection(
    [1, 5, 2, 4, 3, 0, 7],
    type_info=Types.INT(),
)
result = records.key_by(lambda record: record % 2).min_by()
with result.execute_and_collect() as records:
    for record in records:
        print(record)
