"""Windows of so many records (window tumbling, how process).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment


class Told(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, type(context.window()).__name__, sum(each[1] for each in elements)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 8),
        ("bob", 7),
        ("ann", 3),
        ("cem", 6),
        ("bob", 7),
        ("cem", 3),
        ("bob", 9),
        ("ann", 7),
        ("cem", 8),
        ("ann", 7),
        ("bob", 4),
        ("ann", 7),
        ("bob", 2),
        ("ann", 6),
        ("bob", 3),
        ("bob", 4),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0]).count_window(3).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
