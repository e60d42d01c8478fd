"""What a Row does (type unnamed, of made).

Compared in order.
"""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment


def told(value):
    row = Row(name=value[1], id=value[0])
    person = Row("name", "id")
    row["id"] = 7
    return [row, row.name, row["name"], row[1], person, person("x", 1), "name" in row, "age" in row]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
result = env.from_collection(
    [(1, "ann", None), (2, "bob", 2.5)],
    Types.ROW([Types.LONG(), Types.STRING(), Types.DOUBLE()]),
).map(told)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
