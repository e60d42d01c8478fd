"""State of a key (info tuple, key typed, of map-missing).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        missing = self.state.get("missing")
        try:
            item = self.state["missing"]
        except Exception as failure:
            item = type(failure).__name__
        self.state.remove("missing")
        self.state.put("n", (self.state.get("n") or 0) + 1)
        yield value[0], missing, item, "n" in self.state, list(self.state), self.state.is_empty()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 3),
        ("ann", 6),
        ("bob", 5),
        ("cem", 1),
        ("cem", 3),
        ("cem", 3),
        ("bob", 5),
        ("bob", 9),
        ("cem", 7),
        ("cem", 4),
        ("cem", 8),
        ("ann", 1),
        ("ann", 6),
        ("bob", 3),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
