"""Sums, least and greatest values of a field (how max-by, of names, mode streaming, out collect).

Compared by key.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
records = env.from_collection(
    [Row("a", "x", 1.5), Row("b", "y", 4.0), Row("a", "z", 0.5), Row("a", "w", 3.0), Row("b", "v", 4.0)],
    type_info=Types.ROW_NAMED(["name", "place", "price"], [Types.STRING(), Types.STRING(), Types.DOUBLE()]),
)
result = records.key_by(lambda record: record.name).max_by("price")
with result.execute_and_collect() as records:
    for record in records:
        print(record)
