"""Windows of a keyed stream in event time (key typed, assigner tumbling, how aggregate).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return "", 0, 0

    def add(self, value, accumulator):
        return value[0], accumulator[1] + value[1], accumulator[2] + 1

    def get_result(self, accumulator):
        return accumulator[0], accumulator[1] / accumulator[2]

    def merge(self, acc_a, acc_b):
        return acc_a[0] or acc_b[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("ann", 9, 1500),
        ("ann", 1, 2400),
        ("bob", 2, 3900),
        ("bob", 1, 7900),
        ("ann", 5, 7900),
        ("ann", 3, 9400),
        ("ann", 3, 8700),
        ("cem", 3, 10300),
        ("cem", 4, 10700),
        ("cem", 1, 11500),
        ("cem", 6, 13700),
        ("bob", 3, 17700),
        ("bob", 9, 21700),
        ("ann", 6, 23200),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(5)))
    .aggregate(Mean(), accumulator_type=Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
