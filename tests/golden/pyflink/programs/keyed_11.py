"""A keyed stream, combined (type untyped, key typed, combine first-ones, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import FilterFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class FirstOfEach(FilterFunction):
    def open(self, runtime_context: RuntimeContext):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        first = not self.seen.value()
        self.seen.update(True)
        return first


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("cem", 6),
        ("ann", 3),
        ("ann", 5),
        ("cem", 1),
        ("bob", 8),
        ("cem", 4),
        ("bob", 4),
        ("cem", 6),
        ("cem", 7),
        ("bob", 5),
        ("bob", 1),
        ("bob", 9),
    ]
)
result = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).filter(FirstOfEach())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
