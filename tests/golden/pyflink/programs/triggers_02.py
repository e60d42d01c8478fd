"""Windows that fire by a trigger (window session, trigger continuous).

Compared by key.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import ContinuousEventTimeTrigger, EventTimeSessionWindows


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
        ("ann", 9, 4000),
        ("ann", 4, 4400),
        ("ann", 9, 4800),
        ("ann", 4, 5700),
        ("bob", 6, 6100),
        ("bob", 9, 6500),
        ("ann", 6, 7400),
        ("cem", 9, 8900),
        ("bob", 6, 10400),
        ("ann", 2, 10400),
        ("ann", 9, 11900),
        ("cem", 4, 13400),
    ],
    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]),
)
result = (
    payments.assign_timestamps_and_watermarks(times)
    .key_by(lambda payment: payment[0])
    .window(EventTimeSessionWindows.with_gap(Time.seconds(2)))
    .trigger(ContinuousEventTimeTrigger.of(Time.seconds(2)))
    .process(Listed())
)
with result.execute_and_collect() as records:
    for record in records:
        print(record)
