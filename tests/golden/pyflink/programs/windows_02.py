"""Windows of a keyed stream in event time (key untyped, assigner session-dynamic, how reduce-window).

Compared by key.
"""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Bounds(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, window.max_timestamp(), list(elements)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[1] * 300


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("cem", 5, 200),
        ("bob", 2, 900),
        ("bob", 7, 2400),
        ("bob", 4, 3900),
        ("cem", 3, 3600),
        ("cem", 6, 4500),
        ("ann", 4, 6700),
        ("cem", 3, 10700),
        ("bob", 2, 10700),
        ("ann", 8, 12200),
        ("bob", 7, 13700),
        ("ann", 1, 13900),
        ("ann", 8, 16100),
        ("ann", 3, 16900),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    .reduce(lambda left, right: (left[0], left[1] + right[1], right[2]), Bounds())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
