"""Windows of so many records (window global, how apply).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import CountTrigger, GlobalWindows


class Told(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, [each[1] for each in inputs]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 7),
        ("cem", 2),
        ("ann", 7),
        ("ann", 8),
        ("cem", 8),
        ("bob", 2),
        ("ann", 3),
        ("cem", 1),
        ("cem", 2),
        ("ann", 9),
        ("bob", 7),
        ("bob", 6),
        ("cem", 7),
        ("bob", 4),
        ("bob", 1),
        ("bob", 1),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .window(GlobalWindows.create())
    .trigger(CountTrigger.of(2))
    .apply(Told(), Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
