"""A keyed stream, combined (type tuple, key lambda, combine min-by, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 8),
        ("bob", 8),
        ("ann", 4),
        ("bob", 3),
        ("bob", 8),
        ("ann", 2),
        ("cem", 2),
        ("bob", 5),
        ("cem", 4),
        ("bob", 1),
        ("bob", 8),
        ("cem", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0]).min_by(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
