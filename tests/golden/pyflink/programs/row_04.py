"""What a Row does (type named, of errors).

Compared in order.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment


def told(value):
    def error(function):
        try:
            return function()
        except Exception as failure:
            return type(failure).__name__

    def assigned():
        value.other = 1

    return [
        error(lambda: value.other),
        error(lambda: value["other"]),
        error(lambda: value[9]),
        error(lambda: Row(1, 2).as_dict()),
        error(lambda: Row("a", "b")(1)),
        error(lambda: Row("a", "b")(1, 2, 3)),
        error(lambda: Row(1, a=2)),
        error(assigned),
    ]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
result = env.from_collection(
    [(1, "ann", None), (2, "bob", 2.5)],
    Types.ROW_NAMED(["id", "name", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()]),
).map(told)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
