"""State of a key (info row, key untyped, of value).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        last = self.state.value()
        if value[1] > 7:
            self.state.clear()
        elif value[1] > 2:
            self.state.update(value[1])
        yield value[0], value[1], last, self.state.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 9),
        ("bob", 1),
        ("ann", 7),
        ("ann", 8),
        ("ann", 3),
        ("bob", 8),
        ("cem", 3),
        ("cem", 1),
        ("bob", 7),
        ("ann", 2),
        ("ann", 7),
        ("ann", 2),
        ("ann", 9),
        ("ann", 3),
    ],
    Types.ROW([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
