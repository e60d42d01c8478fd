"""Windows that fire by a trigger (window sliding, trigger event).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeTrigger, SlidingEventTimeWindows


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
    PaymentTime()
)


class Listed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, [element[1] for element in elements]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payments = env.from_collection(
    [
        ("bob", 4, 900),
        ("ann", 6, 2400),
        ("bob", 1, 6400),
        ("cem", 3, 6400),
        ("ann", 9, 5700),
        ("cem", 7, 7900),
        ("cem", 7, 9400),
        ("cem", 2, 10900),
        ("ann", 6, 11100),
        ("ann", 7, 15800),
        ("bob", 2, 15100),
        ("cem", 9, 19800),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(3)))
    .trigger(EventTimeTrigger.create())
    .process(Listed())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
