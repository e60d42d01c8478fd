"""Windows of a keyed stream in event time (key untyped, assigner tumbling-offset, how reduce).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows


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
        ("bob", 3, 1500),
        ("ann", 5, 1900),
        ("bob", 6, 3400),
        ("bob", 4, 4900),
        ("bob", 8, 4600),
        ("cem", 4, 6800),
        ("cem", 7, 7600),
        ("ann", 4, 8300),
        ("bob", 4, 9200),
        ("ann", 9, 9200),
        ("ann", 4, 10700),
        ("cem", 1, 12200),
        ("bob", 8, 13700),
        ("ann", 2, 13000),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)))
    .reduce(lambda left, right: (left[0], left[1] + right[1], max(left[2], right[2])))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
