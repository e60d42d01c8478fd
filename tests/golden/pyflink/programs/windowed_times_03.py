"""Timestamps behind windows, and windows of windows (assigner session, then again).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows


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
        ("bob", 9, 4000),
        ("ann", 1, 8000),
        ("cem", 9, 9500),
        ("bob", 2, 11000),
        ("ann", 2, 11000),
        ("cem", 9, 11800),
        ("bob", 1, 11800),
        ("bob", 1, 12900),
        ("cem", 2, 12900),
        ("ann", 2, 13300),
        ("cem", 5, 13700),
        ("bob", 4, 13700),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
windows = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(EventTimeSessionWindows.with_gap(Time.seconds(2)))
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
