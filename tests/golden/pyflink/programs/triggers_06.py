"""Windows that fire by a trigger (window tumbling, trigger event).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeTrigger, TumblingEventTimeWindows


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
        ("ann", 5, 1500),
        ("bob", 1, 3000),
        ("cem", 3, 3400),
        ("ann", 6, 3400),
        ("ann", 4, 3800),
        ("cem", 7, 3500),
        ("cem", 3, 8200),
        ("ann", 1, 9700),
        ("ann", 7, 9900),
        ("cem", 7, 11000),
        ("ann", 9, 12500),
        ("bob", 1, 12900),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(6)))
    .trigger(EventTimeTrigger.create())
    .process(Listed())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
