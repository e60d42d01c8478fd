"""Sums, least and greatest values of a field (how sum, of lists, mode batch, out print).

Compared by key.
"""

from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
records = env.from_collection(
    [[1, 5, 2], [2, 4, 3], [1, 3, 7], [2, 9, 9], [1, 8, 1]],
    type_info=None,
)
result = records.key_by(lambda record: record[0]).sum(1)
result.print()
env.execute()
