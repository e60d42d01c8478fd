"""State of a key (info row, key typed, of reducing).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ReducingStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_reducing_state(
            ReducingStateDescriptor("most", lambda left, right: max(left, right), Types.INT())
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        before = self.state.get()
        self.state.add(value[1])
        after = self.state.get()
        if after > 7:
            self.state.clear()
        yield value[0], value[1], before, after, self.state.get()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 3),
        ("ann", 4),
        ("cem", 4),
        ("cem", 3),
        ("ann", 2),
        ("bob", 3),
        ("ann", 7),
        ("ann", 5),
        ("bob", 4),
        ("cem", 6),
        ("cem", 9),
        ("bob", 7),
        ("cem", 9),
        ("cem", 3),
    ],
    Types.ROW([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
