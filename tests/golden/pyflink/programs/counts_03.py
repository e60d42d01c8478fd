"""Windows of so many records (window sliding, how process).

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
        ("ann", 8),
        ("cem", 8),
        ("ann", 2),
        ("ann", 1),
        ("bob", 5),
        ("cem", 1),
        ("cem", 6),
        ("cem", 2),
        ("bob", 3),
        ("bob", 5),
        ("bob", 2),
        ("cem", 9),
        ("ann", 7),
        ("ann", 2),
        ("bob", 1),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0]).count_window(3, 2).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
