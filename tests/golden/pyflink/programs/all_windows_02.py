"""Windows of a stream without keys (assigner tumbling, how reduce, mode streaming).

Compared in order.
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
        ("cem", 7, 900),
        ("bob", 2, 1300),
        ("bob", 1, 2800),
        ("bob", 4, 6800),
        ("ann", 6, 10100),
        ("cem", 4, 12300),
        ("cem", 2, 12700),
        ("cem", 8, 13500),
        ("ann", 7, 18200),
        ("ann", 4, 17500),
        ("cem", 2, 19700),
        ("cem", 9, 20500),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .window_all(TumblingEventTimeWindows.of(Time.seconds(4)))
    .reduce(lambda left, right: (left[0] + right[0][0], left[1] + right[1], right[2]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
