"""A keyed stream, combined (type untyped, key lambda, combine min, mode streaming).

Compared by key.
"""

from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("bob", 3),
        ("cem", 8),
        ("ann", 6),
        ("bob", 1),
        ("cem", 3),
        ("ann", 1),
        ("ann", 6),
        ("ann", 3),
        ("cem", 8),
        ("ann", 9),
        ("bob", 8),
        ("cem", 7),
    ]
)
result = pairs.key_by(lambda pair: pair[0]).min(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
