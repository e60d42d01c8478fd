"""State of a key (info tuple, key untyped, of list).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_list_state(ListStateDescriptor("all", Types.INT()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        before = list(self.state.get())
        if value[1] == 9:
            self.state.clear()
        elif value[1] > 6:
            self.state.update([value[1], 0])
        elif value[1] > 4:
            self.state.add_all([value[1], -value[1]])
        else:
            self.state.add(value[1])
        yield value[0], before, list(self.state), list(self.state.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 2),
        ("ann", 7),
        ("ann", 9),
        ("ann", 3),
        ("ann", 5),
        ("bob", 9),
        ("bob", 1),
        ("ann", 1),
        ("cem", 6),
        ("bob", 3),
        ("bob", 5),
        ("ann", 1),
        ("cem", 8),
        ("cem", 1),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
