"""State of a key (info row, key typed, of value-pickled).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        seen = self.state.value() or {}
        seen[value[1]] = seen.get(value[1], 0) + 1
        self.state.update(seen)
        yield value[0], sorted(seen.items())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 3),
        ("cem", 2),
        ("bob", 3),
        ("cem", 6),
        ("bob", 2),
        ("ann", 8),
        ("cem", 7),
        ("bob", 4),
        ("cem", 8),
        ("cem", 4),
        ("cem", 3),
        ("bob", 9),
        ("cem", 1),
        ("ann", 5),
    ],
    Types.ROW([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
