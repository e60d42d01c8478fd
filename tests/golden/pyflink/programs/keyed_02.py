"""A keyed stream, combined (type tuple, key typed, combine flat, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("bob", 8),
        ("ann", 2),
        ("cem", 1),
        ("cem", 9),
        ("bob", 2),
        ("ann", 3),
        ("ann", 5),
        ("bob", 7),
        ("cem", 6),
        ("bob", 7),
        ("ann", 6),
        ("cem", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).flat_map(
    lambda pair: [(pair[0], pair[1] - 1), (pair[0], pair[1] + 1)]
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
