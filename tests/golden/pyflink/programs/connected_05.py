"""Two streams, connected (type row, limits typed, how flat-map).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import CoFlatMapFunction, StreamExecutionEnvironment


class Both(CoFlatMapFunction):
    def flat_map1(self, value):
        for number in range(value[1] % 3):
            yield f"{value[0]}-pair, {number}"

    def flat_map2(self, value):
        return [f"{value[0]}-limit, {value[1]}"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("ann", 2), ("ann", 9), ("ann", 9), ("cem", 2), ("ann", 1), ("bob", 8), ("bob", 1), ("cem", 4)],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.INT()]),
)
limits = env.from_collection(
    [("ann", 20), ("bob", 10), ("dan", 5)], Types.TUPLE([Types.STRING(), Types.INT()])
)
result = pairs.connect(limits).flat_map(Both(), Types.STRING())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
