"""Sources, limits and projections (of project).

Compared in order.
"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
triples = env.from_collection(
    [("a", 1, 2.5), ("b", 2, 0.5)], Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
)
result = triples.project(2, 0).map(lambda pair: pair)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
