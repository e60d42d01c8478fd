"""Side outputs (type typed, which unread, from keyed, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment

small = OutputTag("small", Types.TUPLE([Types.STRING(), Types.INT()]))
text = OutputTag("text", Types.STRING())


class Sorted(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        yield value
        if value[1] < 4:
            yield small, (ctx.get_current_key(), value[1] * 100)
        yield text, ctx.get_current_key()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 1),
        ("cem", 4),
        ("cem", 3),
        ("bob", 6),
        ("cem", 8),
        ("ann", 2),
        ("ann", 5),
        ("ann", 6),
        ("cem", 2),
        ("bob", 9),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.key_by(lambda pair: pair[0]).process(Sorted(), Types.TUPLE([Types.STRING(), Types.INT()]))
result = main.map(lambda value: f"{type(value[0]).__name__}, of the main stream")
with result.execute_and_collect() as records:
    for record in records:
        print(record)
