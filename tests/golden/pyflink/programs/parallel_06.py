"""Two subtasks (how broadcast, mode streaming).

Compared in any order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pairs = env.from_collection(
    [
        ("cem", 1),
        ("ann", 2),
        ("bob", 6),
        ("cem", 4),
        ("ann", 6),
        ("cem", 6),
        ("ann", 6),
        ("cem", 3),
        ("bob", 4),
        ("cem", 1),
        ("cem", 8),
        ("bob", 5),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.broadcast().map(lambda pair: pair)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
