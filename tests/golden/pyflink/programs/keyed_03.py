"""A keyed stream, combined (type untyped, key typed, combine reduce-lambda, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("bob", 6),
        ("bob", 3),
        ("ann", 1),
        ("bob", 3),
        ("ann", 5),
        ("ann", 7),
        ("cem", 4),
        ("bob", 7),
        ("bob", 9),
        ("cem", 2),
        ("cem", 3),
        ("ann", 5),
    ]
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).reduce(
    lambda left, right: (left[0], left[1] + right[1])
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
