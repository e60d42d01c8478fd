"""Two subtasks (how custom, mode streaming).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import MapFunction, Partitioner, RuntimeContext, StreamExecutionEnvironment


class Named(Partitioner):
    def partition(self, key, num_partitions):
        return len(key + "x" * (key == "bob")) % num_partitions


class Where(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.place = (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
        )

    def map(self, value):
        return value[0], value[1], self.place


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pairs = env.from_collection(
    [
        ("cem", 7),
        ("bob", 1),
        ("ann", 7),
        ("cem", 2),
        ("bob", 3),
        ("bob", 6),
        ("ann", 9),
        ("ann", 2),
        ("ann", 4),
        ("cem", 7),
        ("cem", 3),
        ("cem", 6),
    ],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
result = pairs.partition_custom(Named(), lambda pair: pair[0]).map(Where())
result.print()
env.execute()
