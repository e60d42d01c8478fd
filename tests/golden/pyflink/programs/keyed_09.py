"""A keyed stream, combined (type row, key lambda, combine first-ones, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import (
    FilterFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
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
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("bob", 6),
        ("cem", 4),
        ("ann", 3),
        ("cem", 1),
        ("ann", 9),
        ("ann", 1),
        ("ann", 8),
        ("cem", 4),
        ("ann", 4),
        ("bob", 2),
        ("cem", 5),
        ("ann", 6),
    ],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()]),
)
result = pairs.key_by(lambda pair: pair[0]).filter(FirstOfEach())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
