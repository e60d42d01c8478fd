"""Side outputs (type typed, which unread, from connected, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import CoProcessFunction, OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment

small = OutputTag("small", Types.TUPLE([Types.STRING(), Types.INT()]))
text = OutputTag("text", Types.STRING())


class Sorted(CoProcessFunction):
    def process_element1(self, value, ctx: "CoProcessFunction.Context"):
        yield small, value

    def process_element2(self, value, ctx: "CoProcessFunction.Context"):
        yield text, value
        yield f"{value}, a name"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("ann", 2),
        ("bob", 3),
        ("bob", 3),
        ("bob", 9),
        ("cem", 8),
        ("ann", 3),
        ("ann", 5),
        ("cem", 2),
        ("bob", 9),
        ("bob", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.connect(pairs.map(lambda pair: pair[0])).process(Sorted())
result = main.map(lambda value: f"{type(value[0]).__name__}, of the main stream")
with result.execute_and_collect() as records:
    for record in records:
        print(record)
