"""Values of declared types, and what a function sees of them (steps kept, of strings).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
values = env.from_collection(["a", "", "tide, gate", "\u4f60\u597d"], type_info=Types.STRING())
result = values.filter(lambda value: True)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
