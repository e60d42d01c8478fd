"""Two streams, connected (type row, limits typed, how map).

Compared by key.
"""

from pyflink.common import Types
from pyflink.datastream import CoMapFunction, StreamExecutionEnvironment


class Both(CoMapFunction):
    def map1(self, value):
        return f"{value[0]}-pair, {value[1]}"

    def map2(self, value):
        return f"{value[0]}-limit, {value[1]}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = env.from_collection(
    [("cem", 5), ("ann", 1), ("ann", 2), ("ann", 7), ("bob", 5), ("ann", 5), ("bob", 3), ("cem", 2)],
    Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.INT()]),
)
limits = env.from_collection(
    [("ann", 20), ("bob", 10), ("dan", 5)], Types.TUPLE([Types.STRING(), Types.INT()])
)
result = pairs.connect(limits).map(Both())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
