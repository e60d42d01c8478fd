"""Timestamps behind windows, and windows of windows (assigner tumbling, then again).

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
        ("cem", 6, 1500),
        ("cem", 7, 1900),
        ("cem", 1, 2800),
        ("bob", 2, 3000),
        ("bob", 6, 4100),
        ("ann", 7, 5600),
        ("ann", 6, 6500),
        ("cem", 2, 8000),
        ("cem", 7, 12000),
        ("cem", 2, 13500),
        ("ann", 9, 15000),
        ("ann", 3, 15800),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
windows = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(3)))
    .reduce(lambda left, right: (left[0], left[1] + right[1], right[2]))
)
result = (
    windows.key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(6)))
    .reduce(lambda left, right: (left[0], max(left[1], right[1]), 0))
    .process(Stamped())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
