"""Values without a declared type (steps in-lists, of dictionaries, out collect).

Compared in order.
"""

from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(
    [{"id": 1, "tags": ["x", "y"], "price": 2.5}, {"id": 2, "tags": [], "price": None}]
)
result = values.map(lambda value: [value, None, {"of": value}])
with result.execute_and_collect() as records:
    for record in records:
        print(record)
