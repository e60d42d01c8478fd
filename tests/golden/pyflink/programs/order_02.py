"""Records of a key in a batch job come by time (mode streaming).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Told(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        yield value[0], ctx.timestamp(), value[1], ctx.timer_service().current_watermark() < 0


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("ann", 5, 0),
        ("ann", 1, 400),
        ("cem", 8, 1300),
        ("bob", 7, 2800),
        ("bob", 8, 3600),
        ("ann", 8, 4300),
        ("cem", 6, 5800),
        ("cem", 2, 6200),
        ("bob", 8, 7100),
        ("cem", 1, 11100),
        ("ann", 7, 10400),
        ("cem", 5, 11100),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.assign_timestamps_and_watermarks(times).key_by(lambda payment: payment[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
