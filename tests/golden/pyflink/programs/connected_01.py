"""Two streams, connected (type tuple, limits typed, how keyed-streams).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import CoFlatMapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Both(CoFlatMapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def flat_map1(self, value):
        self.seen.add(value[1])
        yield f"{value[0]}-sum, {sum(self.seen.get())}"

    def flat_map2(self, value):
        yield f"{value[0]}-limit, {value[1]}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("bob", 4), ("ann", 6), ("ann", 7), ("cem", 5), ("bob", 9), ("ann", 7), ("bob", 4), ("ann", 3)],
    Types.TUPLE([Types.STRING(), Types.INT()]),
)
limits = env.from_collection(
    [("ann", 20), ("bob", 10), ("dan", 5)], Types.TUPLE([Types.STRING(), Types.INT()])
)
result = pairs.key_by(lambda pair: pair[0]).connect(limits.key_by(lambda limit: limit[0])).flat_map(Both())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
