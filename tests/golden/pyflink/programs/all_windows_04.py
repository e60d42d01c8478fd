"""Windows of a stream without keys (assigner sliding, how aggregate, mode batch).

Compared in order.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.window import SlidingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Names(AggregateFunction):
    def create_accumulator(self):
        return {}

    def add(self, value, accumulator):
        accumulator[value[0]] = accumulator.get(value[0], 0) + value[1]
        return accumulator

    def get_result(self, accumulator):
        return sorted(accumulator.items())

    def merge(self, acc_a, acc_b):
        return {name: acc_a.get(name, 0) + acc_b.get(name, 0) for name in {*acc_a, *acc_b}}


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
payments = env.from_collection(
    [
        ("ann", 1, 900),
        ("cem", 7, 4200),
        ("bob", 4, 6400),
        ("cem", 1, 6100),
        ("cem", 6, 7700),
        ("bob", 2, 9200),
        ("ann", 2, 10700),
        ("bob", 5, 11100),
        ("ann", 9, 12600),
        ("ann", 8, 14100),
        ("cem", 8, 15600),
        ("cem", 3, 14900),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .window_all(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)))
    .aggregate(Names())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
