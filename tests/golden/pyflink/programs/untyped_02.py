"""Values without a declared type (steps kept, of tuples, out print).

Compared in order.
"""

from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection([(1, "a", None), (2, ("b", [3]), {4}), ()])
result = values.filter(lambda value: True)
result.print()
env.execute()
