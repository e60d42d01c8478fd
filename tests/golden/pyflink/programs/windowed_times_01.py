"""Timestamps behind windows, and windows of windows (assigner sliding, then stamps).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.window import SlidingEventTimeWindows


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
        ("cem", 8, 1500),
        ("ann", 1, 800),
        ("cem", 8, 2400),
        ("ann", 7, 2800),
        ("bob", 9, 2100),
        ("ann", 7, 3700),
        ("cem", 8, 4500),
        ("ann", 9, 9200),
        ("ann", 8, 10000),
        ("bob", 5, 14700),
        ("cem", 4, 16200),
        ("cem", 6, 20200),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
windows = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)))
    .reduce(lambda left, right: (left[0], left[1] + right[1], right[2]))
)
result = windows.process(Stamped())
with result.execute_and_collect() as records:
    for record in records:
        print(record)
