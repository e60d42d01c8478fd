"""Windows of a keyed stream in event time (key typed, assigner tumbling-offset, how process).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows


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
        ("ann", 4, 1500),
        ("cem", 6, 1500),
        ("bob", 8, 2400),
        ("bob", 2, 3900),
        ("bob", 9, 4800),
        ("ann", 6, 6300),
        ("ann", 5, 6300),
        ("cem", 7, 7100),
        ("ann", 1, 8700),
        ("ann", 2, 9100),
        ("bob", 5, 10600),
        ("bob", 6, 12100),
        ("cem", 9, 13000),
        ("bob", 4, 12300),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)))
    .process(Listed(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()]))
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
