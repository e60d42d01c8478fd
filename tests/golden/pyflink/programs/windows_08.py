"""Windows of a keyed stream in event time (key untyped, assigner sliding-offset, how apply).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Texts(WindowFunction):
    def apply(self, key, window, inputs):
        return [f"{key}, {window.start}, {[each[1] for each in inputs]}"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("cem", 9, 4000),
        ("cem", 6, 4000),
        ("bob", 2, 8000),
        ("cem", 1, 8400),
        ("bob", 7, 9300),
        ("cem", 4, 9000),
        ("ann", 7, 9700),
        ("ann", 5, 10500),
        ("bob", 9, 11600),
        ("ann", 5, 13100),
        ("ann", 1, 14000),
        ("cem", 6, 14900),
        ("bob", 6, 15300),
        ("ann", 1, 16200),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(3), Time.seconds(1)))
    .apply(Texts(), Types.STRING())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
