"""What a Row does (type named, of compared).

Compared in order.
"""

from pyflink.common import Row, RowKind, Types
from pyflink.datastream import StreamExecutionEnvironment


def told(value):
    row = Row(a=1, b=2)
    return [
        row == Row(b=2, a=1),
        row == Row(1, 2),
        Row(1, 2) == Row(1, 2),
        Row(1, 2) == (1, 2),
        hash(Row(1, 2)) == hash((1, 2)),
        Row.of_kind(RowKind.DELETE, 1, 2) == Row(1, 2),
        2 in Row(1, 2),
        value == Row(1, "ann", None),
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
