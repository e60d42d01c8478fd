"""What a Row does (type named, of kinds).

Compared in order.
"""

from pyflink.common import Row, RowKind, Types
from pyflink.datastream import StreamExecutionEnvironment


def told(value):
    row = Row.of_kind(RowKind.UPDATE_AFTER, *value)
    kinds = [value.get_row_kind(), row.get_row_kind()]
    row.set_row_kind(RowKind.DELETE)
    row.set_field_names(["p", "q", "r"])
    return [kinds, [str(kind) for kind in RowKind], row, row.p, row.get_fields_by_names(["r", "p"])]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
result = env.from_collection(
    [(1, "ann", None), (2, "bob", 2.5)],
    Types.ROW_NAMED(["id", "name", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()]),
).map(told)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
