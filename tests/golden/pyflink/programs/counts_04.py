"""Windows of so many records (window purging, how reduce).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 8),
        ("cem", 3),
        ("ann", 1),
        ("ann", 1),
        ("bob", 8),
        ("bob", 7),
        ("bob", 8),
        ("bob", 4),
        ("cem", 9),
        ("bob", 1),
        ("cem", 9),
        ("cem", 2),
        ("ann", 2),
        ("cem", 4),
        ("bob", 9),
        ("bob", 3),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .window(GlobalWindows.create())
    .trigger(PurgingTrigger.of(CountTrigger.of(2)))
    .reduce(lambda left, right: (left[0], left[1] + right[1]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
