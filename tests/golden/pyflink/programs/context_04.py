"""What a function learns of its surroundings (stamps none, how runtime, mode batch).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import MapFunction, RuntimeContext, RuntimeExecutionMode, StreamExecutionEnvironment


class Told(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.context = runtime_context
        self.counter = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        self.counter.inc()
        return (
            value[0],
            self.context.get_index_of_this_subtask(),
            self.context.get_number_of_parallel_subtasks(),
            self.counter.get_count(),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
payments = env.from_collection(
    [("cem", 5, 4000), ("ann", 3, 4800), ("bob", 6, 7000), ("bob", 1, 8500), ("cem", 2, 8900)],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.map(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
