"""What a function learns of its surroundings (stamps assigned, how later, mode streaming).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment


class Told(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        yield value[0], ctx.timestamp()


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [("ann", 8, 900), ("ann", 2, 200), ("ann", 6, 600), ("ann", 6, 1300), ("cem", 1, 5300)],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .map(lambda payment: payment)
    .rebalance()
    .flat_map(lambda payment: [payment, payment])
    .process(Told())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
