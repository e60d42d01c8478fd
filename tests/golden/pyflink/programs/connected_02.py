"""Two streams, connected (type row, limits untyped, how process).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import CoProcessFunction, RuntimeContext, StreamExecutionEnvironment


class Both(CoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.seen = {}

    def process_element1(self, value, ctx: "CoProcessFunction.Context"):
        self.seen[value[0]] = self.seen.get(value[0], 0) + value[1]
        yield value[0] + "-pair", self.seen[value[0]]

    def process_element2(self, value, ctx: "CoProcessFunction.Context"):
        yield value[0] + "-limit", value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("cem", 1), ("ann", 4), ("cem", 1), ("bob", 8), ("cem", 6), ("bob", 9), ("bob", 8), ("ann", 1)],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.INT()]),
)
limits = env.from_collection([("ann", 20), ("bob", 10), ("dan", 5)])
result = pairs.connect(limits).process(Both())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
