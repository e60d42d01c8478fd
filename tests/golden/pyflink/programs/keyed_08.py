"""A keyed stream, combined (type untyped, key lambda, combine reduce-class, mode batch).

Compared by key.
"""

from pyflink.datastream import ReduceFunction, RuntimeExecutionMode, StreamExecutionEnvironment


class Joined(ReduceFunction):
    def reduce(self, value1, value2):
        return value2[0], value1[1] * 10 + value2[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
pairs = env.from_collection(
    [
        ("cem", 5),
        ("ann", 3),
        ("cem", 9),
        ("ann", 6),
        ("ann", 7),
        ("ann", 3),
        ("ann", 6),
        ("cem", 2),
        ("bob", 7),
        ("ann", 3),
        ("ann", 3),
        ("cem", 6),
    ]
)
result = pairs.key_by(lambda pair: pair[0]).reduce(Joined())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
