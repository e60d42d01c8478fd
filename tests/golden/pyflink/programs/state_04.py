"""State of a key (info tuple, key typed, of value-row).

Compared by key.
"""

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(
            ValueStateDescriptor("last", Types.ROW_NAMED(["n", "sum"], [Types.INT(), Types.INT()]))
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        last = self.state.value()
        if last is None:
            last = Row(n=0, sum=0)
        self.state.update(Row(n=last.n + 1, sum=last.sum + value[1]))
        yield value[0], last, self.state.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("bob", 3),
        ("cem", 4),
        ("cem", 9),
        ("ann", 1),
        ("ann", 8),
        ("cem", 1),
        ("cem", 8),
        ("cem", 6),
        ("cem", 5),
        ("ann", 7),
        ("bob", 8),
        ("ann", 9),
        ("bob", 3),
        ("ann", 6),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
