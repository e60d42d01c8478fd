"""Windows of so many records (window assigner, how apply).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import CountTumblingWindowAssigner


class Told(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, [each[1] for each in inputs]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("bob", 3),
        ("bob", 1),
        ("cem", 8),
        ("ann", 3),
        ("ann", 9),
        ("cem", 4),
        ("bob", 4),
        ("ann", 7),
        ("bob", 8),
        ("bob", 3),
        ("bob", 2),
        ("cem", 5),
        ("bob", 4),
        ("cem", 6),
        ("cem", 5),
        ("ann", 3),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .window(CountTumblingWindowAssigner.of(2))
    .apply(Told(), Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
