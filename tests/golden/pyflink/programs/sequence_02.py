"""Sources, limits and projections (of sequence).

Compared in order.
"""

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_source(
    NumberSequenceSource(1, 12), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
)
result = numbers.map(lambda number: number * number)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
