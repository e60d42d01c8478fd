"""A keyed stream, combined (type row, key lambda, combine max, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("bob", 9),
        ("bob", 2),
        ("bob", 2),
        ("bob", 5),
        ("ann", 7),
        ("ann", 3),
        ("bob", 2),
        ("cem", 5),
        ("ann", 2),
        ("cem", 9),
        ("cem", 8),
        ("bob", 4),
    ],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0]).max(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
