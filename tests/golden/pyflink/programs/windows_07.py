"""Windows of a keyed stream in event time (key untyped, assigner sliding, how process).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import SlidingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Listed(ProcessWindowFunction):
    def process(self, key, context, elements):
        found = list(elements)
        yield key, context.window().start, context.window().end, len(found)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 3, 1500),
        ("bob", 1, 4800),
        ("ann", 3, 5200),
        ("ann", 7, 6800),
        ("bob", 9, 6100),
        ("ann", 9, 7200),
        ("ann", 6, 11200),
        ("ann", 2, 11200),
        ("cem", 5, 11600),
        ("cem", 6, 11600),
        ("bob", 2, 12500),
        ("ann", 8, 14000),
        ("cem", 7, 13700),
        ("bob", 2, 14800),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(SlidingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)))
    .process(Listed(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
