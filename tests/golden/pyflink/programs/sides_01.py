"""Side outputs (type typed, which both, from window, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import (
    OutputTag,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)

small = OutputTag("small", Types.TUPLE([Types.STRING(), Types.INT()]))
text = OutputTag("text", Types.STRING())


class Sorted(ProcessWindowFunction):
    def process(self, key, context, elements):
        found = [element[1] for element in elements]
        yield key, found
        yield small, (key, min(found))
        yield text, f"{key}, {max(found)}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("bob", 2),
        ("cem", 3),
        ("cem", 9),
        ("cem", 5),
        ("bob", 3),
        ("cem", 1),
        ("bob", 2),
        ("ann", 2),
        ("cem", 8),
        ("ann", 5),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.key_by(lambda pair: pair[0]).count_window(2).process(Sorted())
texts = main.get_side_output(text).map(lambda text: f"{text}, from the side")
result = texts.union(main.get_side_output(small).map(lambda pair: f"{pair}"))
with result.execute_and_collect() as records:
    for record in records:
        print(record)
