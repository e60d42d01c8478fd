"""Windows of a keyed stream in event time (key typed, assigner session, how apply).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import EventTimeSessionWindows


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
        ("cem", 8, 1500),
        ("bob", 7, 5500),
        ("ann", 7, 5900),
        ("ann", 8, 6800),
        ("ann", 1, 7200),
        ("ann", 6, 8700),
        ("cem", 4, 8700),
        ("ann", 6, 10200),
        ("ann", 7, 11700),
        ("ann", 7, 11900),
        ("cem", 6, 13000),
        ("cem", 2, 14500),
        ("cem", 2, 14900),
        ("cem", 9, 16400),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .window(EventTimeSessionWindows.with_gap(Time.milliseconds(1500)))
    .apply(Texts(), Types.STRING())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
