"""Records of a key in a batch job come by time (mode batch).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment


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
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
payments = env.from_collection(
    [
        ("ann", 8, 4000),
        ("cem", 1, 4400),
        ("ann", 2, 8400),
        ("bob", 3, 9300),
        ("cem", 3, 13300),
        ("cem", 5, 16600),
        ("cem", 7, 21300),
        ("bob", 6, 25300),
        ("bob", 8, 28600),
        ("bob", 6, 29300),
        ("bob", 8, 30800),
        ("ann", 4, 32300),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = payments.assign_timestamps_and_watermarks(times).key_by(lambda payment: payment[0]).process(Told())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
