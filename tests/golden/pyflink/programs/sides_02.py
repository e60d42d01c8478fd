"""Side outputs (type untyped, which main, from connected, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import CoProcessFunction, OutputTag, StreamExecutionEnvironment

small = OutputTag("small")
text = OutputTag("text", Types.STRING())


class Sorted(CoProcessFunction):
    def process_element1(self, value, ctx: "CoProcessFunction.Context"):
        yield small, value

    def process_element2(self, value, ctx: "CoProcessFunction.Context"):
        yield text, value
        yield f"{value}, a name"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("bob", 4),
        ("cem", 8),
        ("ann", 4),
        ("ann", 5),
        ("bob", 1),
        ("cem", 7),
        ("cem", 4),
        ("ann", 5),
        ("ann", 9),
        ("bob", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.connect(pairs.map(lambda pair: pair[0])).process(Sorted())
small_ones, texts = main.get_side_output(small), main.get_side_output(text)
result = main
with result.execute_and_collect() as records:
    for record in records:
        print(record)
