"""A keyed stream, combined (type row, key typed, combine counted, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Counted(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return value[0], count, value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 3),
        ("cem", 5),
        ("ann", 6),
        ("bob", 2),
        ("ann", 4),
        ("ann", 9),
        ("bob", 8),
        ("ann", 7),
        ("bob", 5),
        ("cem", 2),
        ("cem", 7),
        ("bob", 4),
    ],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).map(Counted())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
