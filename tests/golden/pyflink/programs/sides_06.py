"""Side outputs (type typed, which both, from process, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

small = OutputTag("small", Types.TUPLE([Types.STRING(), Types.INT()]))
text = OutputTag("text", Types.STRING())


class Sorted(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        if value[1] < 4:
            yield small, value
        elif value[1] > 7:
            yield text, f"{value[0]}, is large"
        else:
            yield value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 5),
        ("bob", 8),
        ("bob", 9),
        ("ann", 2),
        ("cem", 6),
        ("ann", 9),
        ("cem", 7),
        ("ann", 5),
        ("bob", 4),
        ("bob", 2),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.process(Sorted())
texts = main.get_side_output(text).map(lambda text: f"{text}, from the side")
result = texts.union(main.get_side_output(small).map(lambda pair: f"{pair}"))
with result.execute_and_collect() as records:
    for record in records:
        print(record)
