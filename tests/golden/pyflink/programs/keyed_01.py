"""A keyed stream, combined (type row, key lambda, combine sum, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("cem", 2),
        ("bob", 4),
        ("ann", 2),
        ("cem", 2),
        ("ann", 8),
        ("cem", 1),
        ("cem", 4),
        ("cem", 3),
        ("bob", 8),
        ("ann", 9),
        ("bob", 7),
        ("ann", 4),
    ],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0]).sum(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
