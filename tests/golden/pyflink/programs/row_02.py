"""What a Row does (type unnamed, of fields).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def told(value):
    names = value.as_dict()
    return [repr(value), str(value), len(value), list(value), value[0], value[1:], names, sorted(names)]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
result = env.from_collection(
    [(1, "ann", None), (2, "bob", 2.5)],
    Types.ROW([Types.LONG(), Types.STRING(), Types.DOUBLE()]),
).map(told)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
