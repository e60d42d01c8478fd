"""Windows of so many records (window purging, how process).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger


class Told(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, type(context.window()).__name__, sum(each[1] for each in elements)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 8),
        ("ann", 5),
        ("bob", 9),
        ("cem", 6),
        ("ann", 7),
        ("cem", 2),
        ("ann", 3),
        ("ann", 8),
        ("bob", 1),
        ("ann", 3),
        ("ann", 3),
        ("cem", 4),
        ("cem", 4),
        ("ann", 6),
        ("bob", 1),
        ("ann", 4),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = (
    pairs.key_by(lambda pair: pair[0])
    .window(GlobalWindows.create())
    .trigger(PurgingTrigger.of(CountTrigger.of(2)))
    .process(Told())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
