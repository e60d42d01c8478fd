"""Side outputs (type untyped, which both, from keyed, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import (
    KeyedProcessFunction,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)

small = OutputTag("small")
text = OutputTag("text", Types.STRING())


class Sorted(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        yield value
        if value[1] < 4:
            yield small, (ctx.get_current_key(), value[1] * 100)
        yield text, ctx.get_current_key()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("cem", 6),
        ("bob", 2),
        ("bob", 8),
        ("cem", 4),
        ("ann", 1),
        ("bob", 8),
        ("bob", 5),
        ("bob", 1),
        ("bob", 3),
        ("ann", 4),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.key_by(lambda pair: pair[0]).process(Sorted(), Types.TUPLE([Types.STRING(), Types.INT()]))
texts = main.get_side_output(text).map(lambda text: f"{text}, from the side")
result = texts.union(main.get_side_output(small).map(lambda pair: f"{pair}"))
with result.execute_and_collect() as records:
    for record in records:
        print(record)
