"""State of a key (info tuple, key untyped, of aggregating).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import AggregatingStateDescriptor


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Told(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.INT(), Types.INT()]))
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        before = self.state.get()
        self.state.add(value[1])
        yield value[0], value[1], before, self.state.get()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [
        ("ann", 5),
        ("cem", 2),
        ("ann", 2),
        ("bob", 2),
        ("bob", 9),
        ("cem", 1),
        ("ann", 7),
        ("cem", 6),
        ("cem", 8),
        ("ann", 8),
        ("bob", 5),
        ("cem", 1),
        ("ann", 4),
        ("ann", 7),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.key_by(lambda pair: pair[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
