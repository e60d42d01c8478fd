"""Two subtasks (how shuffled, mode streaming).

Compared in any order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pairs = env.from_collection(
    [
        ("cem", 5),
        ("cem", 2),
        ("cem", 2),
        ("cem", 8),
        ("bob", 3),
        ("cem", 4),
        ("ann", 3),
        ("ann", 4),
        ("ann", 3),
        ("ann", 6),
        ("cem", 7),
        ("cem", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.shuffle().filter(lambda pair: pair[1] > 4)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
