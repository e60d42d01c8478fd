"""Side outputs (type untyped, which unread, from window, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessWindowFunction, StreamExecutionEnvironment

small = OutputTag("small")
text = OutputTag("text", Types.STRING())


class Sorted(ProcessWindowFunction):
    def process(self, key, context, elements):
        found = [element[1] for element in elements]
        yield key, found
        yield small, (key, min(found))
        yield text, f"{key}, {max(found)}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 4),
        ("cem", 4),
        ("cem", 1),
        ("bob", 2),
        ("cem", 9),
        ("cem", 1),
        ("ann", 7),
        ("bob", 6),
        ("cem", 1),
        ("ann", 1),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.key_by(lambda pair: pair[0]).count_window(2).process(Sorted())
result = main.map(lambda value: f"{type(value[0]).__name__}, of the main stream")
with result.execute_and_collect() as records:
    for record in records:
        print(record)
