"""Windows of so many records (window assigner, how reduce).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.window import CountTumblingWindowAssigner

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 2),
        ("ann", 7),
        ("cem", 1),
        ("ann", 7),
        ("ann", 4),
        ("cem", 4),
        ("bob", 8),
        ("ann", 6),
        ("bob", 1),
        ("bob", 8),
        ("cem", 9),
        ("cem", 7),
        ("ann", 9),
        ("bob", 4),
        ("ann", 5),
        ("cem", 4),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .window(CountTumblingWindowAssigner.of(2))
    .reduce(lambda left, right: (left[0], left[1] + right[1]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
