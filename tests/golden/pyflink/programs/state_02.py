"""State of a key (info row, key typed, of value-tuple).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(
            ValueStateDescriptor("last", Types.TUPLE([Types.INT(), Types.STRING()]))
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        count, text = self.state.value() or (0, "")
        self.state.update((count + 1, text + str(value[1])))
        yield ctx.get_current_key(), self.state.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 2),
        ("ann", 2),
        ("bob", 3),
        ("ann", 6),
        ("ann", 8),
        ("ann", 6),
        ("cem", 2),
        ("cem", 2),
        ("cem", 4),
        ("ann", 8),
        ("ann", 6),
        ("bob", 9),
        ("ann", 8),
        ("ann", 3),
    ],
    Types.ROW([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
