"""Windows of a keyed stream in event time (key typed, assigner session-dynamic, how reduce).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[1] * 300


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("ann", 9, 1500),
        ("ann", 5, 2400),
        ("cem", 1, 3900),
        ("bob", 1, 7900),
        ("bob", 1, 9400),
        ("bob", 5, 10300),
        ("bob", 7, 14300),
        ("ann", 6, 15100),
        ("cem", 2, 15500),
        ("cem", 9, 16200),
        ("ann", 6, 16200),
        ("bob", 5, 17700),
        ("cem", 7, 18100),
        ("cem", 4, 18100),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .window(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    .reduce(lambda left, right: (left[0], left[1] + right[1], max(left[2], right[2])))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
