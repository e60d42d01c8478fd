"""Two streams, connected (type tuple, limits typed, how union).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("cem", 4), ("ann", 7), ("bob", 2), ("cem", 1), ("bob", 2), ("ann", 5), ("cem", 2), ("ann", 9)],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
limits = env.from_collection(
    [("ann", 20), ("bob", 10), ("dan", 5)], Types.TUPLE([Types.STRING(), Types.INT()])
)
result = pairs.map(lambda pair: (pair[0] + "-pair", pair[1])).union(
    limits.map(lambda limit: (limit[0], limit[1]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
