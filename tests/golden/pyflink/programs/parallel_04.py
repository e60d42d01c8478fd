"""Two subtasks (how windowed, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("cem", 1),
        ("ann", 8),
        ("ann", 1),
        ("cem", 8),
        ("cem", 4),
        ("cem", 7),
        ("bob", 2),
        ("ann", 3),
        ("bob", 4),
        ("cem", 2),
        ("ann", 2),
        ("cem", 7),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .count_window(2)
    .reduce(lambda left, right: (left[0], left[1] * right[1]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
