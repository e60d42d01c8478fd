"""Sources, limits and projections (of limit).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
result = env.from_collection([3, 1, 2], Types.INT()).map(lambda number: number + 1)
print(result.execute_and_collect(limit=2))
