"""A keyed stream, combined (type tuple, key lambda, combine max-by, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("bob", 2),
        ("ann", 4),
        ("bob", 3),
        ("cem", 8),
        ("cem", 3),
        ("cem", 2),
        ("bob", 1),
        ("bob", 6),
        ("cem", 7),
        ("bob", 9),
        ("bob", 9),
        ("ann", 2),
    ],
    Types.TUPLE([Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0]).max_by(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
