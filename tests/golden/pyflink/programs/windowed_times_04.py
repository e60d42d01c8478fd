"""Timestamps behind windows, and windows of windows (assigner tumbling, then stamps).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Stamped(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        yield value[0], value[1], ctx.timestamp()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 3, 400),
        ("cem", 7, 800),
        ("ann", 8, 1700),
        ("bob", 2, 1700),
        ("ann", 5, 2100),
        ("bob", 3, 1400),
        ("cem", 2, 2100),
        ("bob", 9, 3000),
        ("cem", 3, 4500),
        ("ann", 6, 8500),
        ("cem", 6, 9300),
        ("ann", 5, 10900),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
windows = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(3)))
    .reduce(lambda left, right: (left[0], left[1] + right[1], right[2]))
)
result = windows.process(Stamped())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
