"""Sums, least and greatest values of a field (how min, of numbers, mode streaming, out print).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
records = env.from_collection(
    [1, 5, 2, 4, 3, 0, 7],
    type_info=Types.INT(),
)
result = records.key_by(lambda record: record % 2).min()
result.print()
env.execute()
