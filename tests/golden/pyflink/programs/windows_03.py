"""Windows of a keyed stream in event time (key typed, assigner sliding, how aggregate-window).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Shown(WindowFunction):
    def apply(self, key, window, inputs):
        for total in inputs:
            yield f"{key}, {window}, {total}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("cem", 2, 1500),
        ("ann", 3, 1900),
        ("ann", 6, 1900),
        ("bob", 2, 3400),
        ("bob", 7, 3800),
        ("cem", 5, 4700),
        ("bob", 8, 6200),
        ("cem", 4, 10200),
        ("ann", 5, 14200),
        ("cem", 4, 18200),
        ("cem", 5, 19700),
        ("bob", 5, 20100),
        ("ann", 2, 24100),
        ("cem", 7, 23800),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .window(SlidingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)))
    .aggregate(Total(), Shown(), Types.INT(), Types.STRING())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
