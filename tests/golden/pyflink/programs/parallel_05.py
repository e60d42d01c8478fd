"""Two subtasks (how rebalanced, mode streaming).

Compared in any order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pairs = env.from_collection(
    [
        ("cem", 4),
        ("ann", 9),
        ("bob", 4),
        ("ann", 1),
        ("bob", 7),
        ("bob", 3),
        ("cem", 9),
        ("ann", 7),
        ("bob", 8),
        ("ann", 3),
        ("cem", 3),
        ("cem", 6),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.rebalance().map(lambda pair: pair[1] * 2)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
