"""Two subtasks (how keyed, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("ann", 7),
        ("cem", 6),
        ("bob", 9),
        ("bob", 1),
        ("bob", 4),
        ("cem", 2),
        ("cem", 7),
        ("ann", 9),
        ("ann", 9),
        ("ann", 3),
        ("ann", 7),
        ("ann", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.rebalance().map(lambda pair: pair).set_parallelism(1).key_by(lambda pair: pair[0]).sum(1)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
