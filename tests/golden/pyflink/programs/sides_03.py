"""Side outputs (type untyped, which side, from process, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment

small = OutputTag("small")
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
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("cem", 5),
        ("cem", 4),
        ("ann", 7),
        ("bob", 9),
        ("bob", 8),
        ("cem", 2),
        ("bob", 7),
        ("cem", 4),
        ("ann", 9),
        ("bob", 7),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
main = pairs.process(Sorted())
result = main.get_side_output(small)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
