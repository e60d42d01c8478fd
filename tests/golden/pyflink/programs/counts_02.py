"""Windows of so many records (window sliding-assigner, how apply).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import CountSlidingWindowAssigner


class Told(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, [each[1] for each in inputs]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("bob", 5),
        ("cem", 5),
        ("cem", 5),
        ("ann", 1),
        ("bob", 8),
        ("bob", 5),
        ("bob", 5),
        ("bob", 4),
        ("cem", 9),
        ("bob", 9),
        ("ann", 3),
        ("bob", 9),
        ("cem", 4),
        ("cem", 4),
        ("bob", 3),
        ("cem", 7),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .window(CountSlidingWindowAssigner.of(4, 1))
    .apply(Told(), Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
