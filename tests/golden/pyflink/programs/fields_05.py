"""Sums, least and greatest values of a field (how max, of lists, mode streaming, out collect).

Compared by key.
"""

from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
records = env.from_collection(
    [[1, 5, 2], [2, 4, 3], [1, 3, 7], [2, 9, 9], [1, 8, 1]],
    type_info=None,
)
result = records.key_by(lambda record: record[0]).max(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
