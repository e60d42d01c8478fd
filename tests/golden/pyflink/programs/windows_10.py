"""Windows of a keyed stream in event time (key untyped, assigner session, how aggregate-window).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import EventTimeSessionWindows


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
        ("bob", 9, 4000),
        ("bob", 8, 4400),
        ("bob", 1, 4400),
        ("ann", 1, 8400),
        ("ann", 8, 9900),
        ("cem", 2, 11400),
        ("bob", 9, 12900),
        ("ann", 7, 16900),
        ("bob", 3, 16200),
        ("cem", 8, 16900),
        ("cem", 6, 17800),
        ("ann", 9, 18200),
        ("cem", 2, 18200),
        ("cem", 7, 19700),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(EventTimeSessionWindows.with_gap(Time.milliseconds(1500)))
    .aggregate(Total(), Shown(), Types.INT(), Types.STRING())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
